"""A task of EleutherAI's evaluation harness, against a verifier whose base URL is the first argument.

The harness splits texts into tokens itself, with the tokenizer in the folder that is the second argument, and sends
token ids. For each possible answer it asks for prompt and answer echoed with their log-probabilities (`echo`,
`logprobs: 1`, `max_tokens: 1`), and sums those of the answer.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

TASKS = Path(__file__).resolve().parent / "lm_eval"


def main(base_url, tokenizer):
    import lm_eval
    from lm_eval.tasks import TaskManager

    os.chdir(TASKS)  # the tasks name their data by a relative path
    results = lm_eval.simple_evaluate(
        model="local-completions",
        model_args={
            "base_url": f"{base_url}/completions",
            "model": only_model(base_url),
            "tokenizer_backend": "huggingface",
            "tokenizer": tokenizer,
            "num_concurrent": 2,
            "max_retries": 1,
        },
        tasks=["capitals", "continuation"],
        # Only ours: to read the hundreds of tasks that the harness brings takes longer than to run these.
        task_manager=TaskManager(include_path=str(TASKS), include_defaults=False),
        bootstrap_iters=0,
    )
    scores = {task: dict(metrics) for task, metrics in results["results"].items()}
    assert scores["capitals"]["acc,none"] == 1.0, scores
    assert scores["continuation"]["exact_match,answer"] == 1.0, scores

    items = results["samples"]["capitals"]
    likelihoods = [float(likelihood) for item in items for [likelihood, _] in item["filtered_resps"]]
    n_choices = sum(len(item["doc"]["choices"]) for item in items)
    assert len(likelihoods) == n_choices and max(likelihoods) < 0, likelihoods
    print("multiple choice:", json.dumps(scores["capitals"]["acc,none"]), "of", len(items), "items")
    print("generation:", json.dumps(scores["continuation"]["exact_match,answer"]))


def only_model(base_url):
    from urllib.request import urlopen

    with urlopen(f"{base_url}/models") as answer:
        return json.load(answer)["data"][0]["id"]


with tempfile.TemporaryDirectory() as cache:
    # Nothing is looked up on the network, and nothing is left behind.
    os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", HF_HOME=cache, TOKENIZERS_PARALLELISM="false")
    main(*sys.argv[1:])
