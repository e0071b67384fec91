"""A load generator's run over the stream endpoint, against a verifier whose base URL is the only argument.

LLMeter sends requests from several clients at a time, reads their streams, and computes what people compare servers by:
time to the first token, time per token, tokens per minute, failures.
"""

import asyncio
import sys
import tempfile

from llmeter.endpoints.openai import OpenAICompletionStreamEndpoint
from llmeter.runner import Runner

N_CLIENTS = 4
N_REQUESTS = 3
MAX_TOKENS = 24


async def main(base_url):
    import openai

    model = openai.OpenAI(base_url=base_url, api_key="unused").models.list().data[0].id
    endpoint = OpenAICompletionStreamEndpoint(model_id=model, api_key="unused", base_url=base_url)
    payload = endpoint.create_payload("Write a short story about the sea.", max_tokens=MAX_TOKENS)
    with tempfile.TemporaryDirectory() as folder:
        result = await Runner(endpoint, output_path=folder).run(
            payload=payload, clients=N_CLIENTS, n_requests=N_REQUESTS
        )
    stats = result.stats
    assert stats["total_requests"] == N_CLIENTS * N_REQUESTS and stats["failed_requests"] == 0, stats
    for response in result.responses:
        # The account at the end of each stream, not an estimate of the generator's own.
        assert response.num_tokens_output == MAX_TOKENS and response.num_tokens_input > 0, response
        assert 0 < response.time_to_first_token < response.time_to_last_token, response
    print(
        f"{stats['total_requests']} streams from {N_CLIENTS} clients: first token after "
        f"{stats['time_to_first_token-p50'] * 1000:.0f} ms, "
        f"{stats['average_output_tokens_per_minute'] / 60:.0f} tokens/s"
    )


asyncio.run(main(sys.argv[1]))
