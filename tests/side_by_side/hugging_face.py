"""Hugging Face's `generate`, in a process of its own that answers requests from standard input, a line of JSON each.

    {"prompts": [[ids], ...], "max_tokens": 64, "temperature": 0.8, "assistant": {"num_assistant_tokens": 3} or null}

Several prompts are one batch, padded on the left. A line of JSON with what each prompt got comes back.
"""

import json
import sys
import time

import torch
import transformers
from transformers.generation.streamers import BaseStreamer


class Clock(BaseStreamer):
    """Notes when tokens come; the first call brings the prompt."""

    def __init__(self):
        self.arrivals = []

    def put(self, value):
        self.arrivals.append((time.monotonic(), value.shape[-1] if value.ndim > 1 and value.shape[0] == 1 else 1))

    def end(self):
        pass


def main(target_folder, draft_folder, n_threads):
    torch.set_num_threads(int(n_threads))
    transformers.logging.set_verbosity_error()
    load = {"dtype": torch.bfloat16, "local_files_only": True}
    target = transformers.AutoModelForCausalLM.from_pretrained(target_folder, **load).eval()
    draft = transformers.AutoModelForCausalLM.from_pretrained(draft_folder, **load).eval()
    passes = []
    target.register_forward_hook(lambda *_: passes.append(None))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        passes.clear()
        answers = generate(target, draft, request, passes)
        print(json.dumps(answers), flush=True)


@torch.inference_mode()
def generate(target, draft, request, passes):
    prompts, end_ids = request["prompts"], target.generation_config.eos_token_id
    end_ids = end_ids if isinstance(end_ids, list) else [end_ids]
    width = max(map(len, prompts))
    ids = torch.tensor([[end_ids[0]] * (width - len(prompt)) + prompt for prompt in prompts])
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])
    settings = {"max_new_tokens": request["max_tokens"], "pad_token_id": end_ids[0], "do_sample": False}
    if request["temperature"] > 0:
        settings |= {"do_sample": True, "temperature": request["temperature"], "top_k": 0, "top_p": 1.0}
    if assistant := request.get("assistant"):
        for name, value in assistant.items():
            setattr(draft.generation_config, name, value)
        settings["assistant_model"] = draft
    clock = Clock()
    output = target.generate(input_ids=ids, attention_mask=mask, streamer=clock, **settings)
    _, *arrivals = clock.arrivals
    return [answer(row[width:].tolist(), end_ids, arrivals, len(passes), bool(assistant)) for row in output]


def answer(ids, end_ids, arrivals, n_passes, assisted):
    """What one row got: up to its end token, what comes after is padding."""
    n_tokens = next((index + 1 for index, token in enumerate(ids) if token in end_ids), len(ids))
    own, left = [], n_tokens
    for when, n_arrived in arrivals:
        if left > 0:
            own.append((when, min(n_arrived, left)))
            left -= n_arrived
    return {"arrivals": own, "tokens": ids[:n_tokens], "n_accepted": n_tokens - n_passes if assisted else None}


if __name__ == "__main__":
    main(*sys.argv[1:])
