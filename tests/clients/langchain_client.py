"""LangChain's OpenAI client, against a verifier whose base URL is the only argument."""

import asyncio
import sys

from langchain_core.messages import AIMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI

QUESTION = "What is the capital of France?"


def main(base_url):
    # Of a server that is not OpenAI's it asks for the account of a stream only if told to.
    settings = {"temperature": 0, "max_tokens": 40, "stream_usage": True}
    model = ChatOpenAI(base_url=base_url, api_key="unused", model=only_model(base_url), **settings)

    answer = model.invoke(QUESTION)
    assert "Paris" in answer.content, answer
    used = answer.usage_metadata
    assert used["total_tokens"] == used["input_tokens"] + used["output_tokens"] > 0, used
    assert answer.response_metadata["finish_reason"] in ("stop", "length"), answer.response_metadata
    print("invoke:", answer.content)

    chunks = list(model.stream(QUESTION))
    assert "".join(chunk.content for chunk in chunks) == answer.content
    total = sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata)
    assert total == used["output_tokens"], chunks
    print("stream:", len(chunks), "chunks")

    conversation = [
        SystemMessage("You answer in one sentence."),
        HumanMessage(QUESTION),
        AIMessage(answer.content),
        HumanMessage("And what is it known for?"),
    ]
    later = model.invoke(conversation)
    assert later.content and later.usage_metadata["input_tokens"] > used["input_tokens"], later
    print("conversation:", later.content)

    several = asyncio.run(model.abatch([QUESTION] * 4))
    assert [each.content for each in several] == [answer.content] * 4, several
    print("batch: 4 at a time, all the same")

    seeded = model.bind(temperature=1, seed=7)
    assert seeded.invoke("Tell me a joke.").content == seeded.invoke("Tell me a joke.").content
    print("seed: twice the same")


def only_model(base_url):
    import openai

    return openai.OpenAI(base_url=base_url, api_key="unused").models.list().data[0].id


main(sys.argv[1])
