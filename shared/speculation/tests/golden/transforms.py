"""Writes transforms.json: what the Hugging Face processors make of rows of logits.

    pip install torch transformers
    python transforms.py > transforms.json

Processors run in the order of transform spec 1. Rows are random, so no two tokens tie and no threshold falls on a
token; presence and frequency penalty are left out because Hugging Face does not define them.
"""

import json

import torch
import transformers
from transformers import generation

N_VOCAB = 48
PROMPT = [3, 7, 7, 20, 41]
GENERATED = [5, 7, 11, 5]

CASES = [
    {},
    {"temperature": 0.5},
    {"temperature": 1.7},
    {"min_p": 0.1},
    {"top_k": 1},
    {"top_k": 7},
    {"top_k": 100},
    {"top_p": 0.05},
    {"top_p": 0.5},
    {"top_p": 0.9},
    {"repetition_penalty": 1.3},
    {"repetition_penalty": 0.7},
    {"logit_bias": [[2, 5.0], [3, -100.0]]},
    {"min_tokens": 4, "end_tokens": [0, 5]},
    {"min_tokens": 5, "end_tokens": [0, 5]},
    {"temperature": 0.7, "top_p": 0.8},
    {"temperature": 1.5, "min_p": 0.05, "top_k": 20},
    {"min_p": 0.02, "top_k": 12, "top_p": 0.85},
    {"repetition_penalty": 1.2, "temperature": 0.8, "top_k": 10},
    {"repetition_penalty": 1.2, "temperature": 0.8, "min_p": 0.01, "top_k": 15, "top_p": 0.9},
    {
        "logit_bias": [[7, 3.5], [30, -2.0]],
        "min_tokens": 6,
        "end_tokens": [1],
        "repetition_penalty": 1.1,
        "temperature": 1.2,
        "min_p": 0.03,
        "top_k": 18,
        "top_p": 0.95,
    },
]


def processors(params):
    chain = generation.LogitsProcessorList()
    if "logit_bias" in params:
        bias = [[[token], value] for token, value in params["logit_bias"]]
        chain.append(generation.SequenceBiasLogitsProcessor(bias))
    if "min_tokens" in params:
        chain.append(
            generation.MinNewTokensLengthLogitsProcessor(len(PROMPT), params["min_tokens"], params["end_tokens"])
        )
    if "repetition_penalty" in params:
        chain.append(generation.RepetitionPenaltyLogitsProcessor(params["repetition_penalty"]))
    if "temperature" in params:
        chain.append(generation.TemperatureLogitsWarper(params["temperature"]))
    if "min_p" in params:
        chain.append(generation.MinPLogitsWarper(params["min_p"]))
    if "top_k" in params:
        chain.append(generation.TopKLogitsWarper(params["top_k"]))
    if "top_p" in params:
        chain.append(generation.TopPLogitsWarper(params["top_p"]))
    return chain


def main():
    torch.manual_seed(0)
    history = torch.tensor([PROMPT + GENERATED])
    cases = []
    for params in CASES:
        logits = torch.randn(1, N_VOCAB) * 1.5
        scores = processors(params)(history, logits.clone())
        probabilities = torch.softmax(scores, dim=-1)[0]
        cases.append({"params": params, "logits": logits[0].tolist(), "probabilities": probabilities.tolist()})
    golden = {
        "made_with": {"transformers": transformers.__version__, "torch": torch.__version__},
        "prompt": PROMPT,
        "generated": GENERATED,
        "cases": cases,
    }
    # One case a line: small enough to read, and a changed case is one changed line.
    lines = ",\n".join(json.dumps(case) for case in golden.pop("cases"))
    head = json.dumps(golden)[:-1]
    print(f'{head}, "cases": [\n{lines}\n]}}')


main()
