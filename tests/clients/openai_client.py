"""What people do with the openai package, against a verifier whose base URL is the only argument.

Prints a line for each thing that works; the first that does not is an exception.
"""

import asyncio
import json
import sys
from typing import Literal

import openai
import pydantic

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
GREEDY = {"temperature": 0, "max_tokens": 40}


class Weather(pydantic.BaseModel):
    """Tells what the weather will be."""

    city: Literal["London", "Paris", "Rome"]
    days: int = pydantic.Field(ge=1, le=14)


class Capital(pydantic.BaseModel):
    country: str = pydantic.Field(max_length=30)
    city: str = pydantic.Field(max_length=30)
    is_large: bool


def main(base_url):
    client = openai.OpenAI(base_url=base_url, api_key="unused", max_retries=0)
    model = client.models.list().data[0].id

    whole = client.chat.completions.create(model=model, messages=QUESTION, **GREEDY)
    text = whole.choices[0].message.content
    assert "Paris" in text, text
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert whole.usage.model_extra["speculation"]["accepted"] > 0, whole.usage
    print("chat:", text)

    options = {"stream": True, "stream_options": {"include_usage": True}}
    chunks = list(client.chat.completions.create(model=model, messages=QUESTION, **GREEDY, **options))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == text
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens and chunks[-1].choices == []
    print("stream:", len(chunks), "chunks")

    asyncio.run(several_at_a_time(base_url, model, text))
    print("async: 4 streams at a time")

    sampled = client.chat.completions.create(model=model, messages=QUESTION, n=3, seed=7, temperature=1, max_tokens=20)
    again = client.chat.completions.create(model=model, messages=QUESTION, n=3, seed=7, temperature=1, max_tokens=20)
    texts = [choice.message.content for choice in sampled.choices]
    assert len(set(texts)) == 3 and texts == [choice.message.content for choice in again.choices], texts
    print("n and seed: 3 choices, twice the same")

    stopped = client.chat.completions.create(model=model, messages=QUESTION, stop=["Paris"], **GREEDY)
    assert stopped.choices[0].finish_reason == "stop" and stopped.choices[0].message.content == text[: text.index("Paris")]
    print("stop:", repr(stopped.choices[0].message.content))

    settings = {"logprobs": True, "top_logprobs": 2, **GREEDY}
    plain = {"extra_body": {"speculation": {"off": True}}}
    scored = [
        client.chat.completions.create(model=model, messages=QUESTION, **settings, **more).choices[0].logprobs.content
        for more in ({}, plain)
    ]
    assert len(scored[0]) == whole.usage.completion_tokens
    for token, of_plain in zip(*scored, strict=True):
        assert token.token == of_plain.token and abs(token.logprob - of_plain.logprob) < 1e-3, (token, of_plain)
        assert token.logprob == max(top.logprob for top in token.top_logprobs), "greedy takes the likeliest"
    print("logprobs:", len(scored[0]), "tokens, with and without speculation")

    prompt = "The capital of France is Paris"
    echoed = client.completions.create(model=model, prompt=prompt, echo=True, logprobs=1, max_tokens=1, temperature=0)
    lists = echoed.choices[0].logprobs
    assert echoed.choices[0].text.startswith(prompt) and lists.token_logprobs[0] is None
    assert len(lists.tokens) == len(lists.token_logprobs) == echoed.usage.total_tokens
    print("echo:", lists.token_logprobs)

    refused(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=QUESTION, top_p=7))
    refused(openai.BadRequestError, lambda: client.chat.completions.create(model=model, messages=[]))
    refused(openai.NotFoundError, lambda: client.chat.completions.create(model="other", messages=QUESTION))
    print("refusals: as exceptions of their own kind")

    tools(client, model)
    structured_output(client, model)

    with client.chat.completions.create(model=model, messages=QUESTION, stream=True, max_tokens=1000) as stream:
        next(iter(stream))
    print("left a stream after its first chunk")


async def several_at_a_time(base_url, model, text):
    client = openai.AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0)

    async def one():
        stream = await client.chat.completions.create(model=model, messages=QUESTION, stream=True, **GREEDY)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    texts = await asyncio.gather(*[one() for _ in range(4)])
    assert texts == [text] * 4, texts


def tools(client, model):
    # One call at a time: a small model that must call does not know when to stop.
    offer = {"model": model, "tools": [openai.pydantic_function_tool(Weather)], "parallel_tool_calls": False}
    offer |= {"temperature": 0, "max_tokens": 100}
    messages = [{"role": "user", "content": "What will the weather be in Paris for the next three days?"}]

    whole = client.chat.completions.parse(messages=messages, tool_choice="required", **offer).choices[0]
    call = whole.message.tool_calls[0]
    assert whole.finish_reason == "tool_calls" and whole.message.content is None, whole
    assert call.type == "function" and call.function.name == "Weather"
    assert isinstance(call.function.parsed_arguments, Weather), call
    print("tools:", call.function.parsed_arguments)

    with client.chat.completions.stream(messages=messages, tool_choice="required", **offer) as stream:
        deltas = [event.arguments_delta for event in stream if event.type == "tool_calls.function.arguments.delta"]
        streamed = stream.get_final_completion().choices[0].message.tool_calls[0]
    assert streamed.function.arguments == call.function.arguments == "".join(deltas) and len(deltas) > 1, deltas
    print("tools, streamed:", len(deltas), "pieces of arguments")

    named = {"type": "function", "function": {"name": "Weather"}}
    again = client.chat.completions.create(messages=messages, tool_choice=named, **offer)
    asked = again.choices[0].message
    assert [call.function.name for call in asked.tool_calls] == ["Weather"]
    messages += [
        asked.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": asked.tool_calls[0].id, "content": json.dumps({"weather": "sunny"})},
    ]
    answer = client.chat.completions.create(messages=messages, tool_choice="none", **offer).choices[0]
    assert answer.message.content and not answer.message.tool_calls, answer
    print("tools, with a result:", repr(answer.message.content))

    bad = {**offer, "tools": [{"type": "function", "function": {"name": "two words"}}]}
    refused(openai.BadRequestError, lambda: client.chat.completions.create(messages=messages, **bad))


def structured_output(client, model):
    settings = {"model": model, "messages": QUESTION, "temperature": 0, "max_tokens": 200}

    parsed = client.chat.completions.parse(response_format=Capital, **settings).choices[0]
    assert isinstance(parsed.message.parsed, Capital) and parsed.finish_reason == "stop", parsed
    print("structured output:", parsed.message.parsed)

    with client.chat.completions.stream(response_format=Capital, **settings) as stream:
        final = stream.get_final_completion().choices[0].message
    assert final.parsed == parsed.message.parsed
    print("structured output, streamed: the same")

    settings = {**settings, "messages": [{"role": "user", "content": "Describe Paris as a small JSON object."}]}
    anything = client.chat.completions.create(response_format={"type": "json_object"}, **settings).choices[0]
    if anything.finish_reason == "stop":
        assert isinstance(json.loads(anything.message.content), dict)
    assert anything.message.content.startswith("{"), anything
    print("any JSON object:", repr(anything.message.content), anything.finish_reason)


def refused(kind, call):
    try:
        call()
    except kind as error:
        assert error.body["message"] and error.code, error
    else:
        raise AssertionError(f"{kind.__name__} was expected")


main(sys.argv[1])
