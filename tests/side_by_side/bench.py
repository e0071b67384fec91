"""Measures our pair beside llama.cpp's server and Hugging Face's `generate`; started by `run`, see README.md."""

import argparse
import json
import os
import signal
import sys
import time
from itertools import count
from pathlib import Path

import machine
import table
from streams import post
from systems import HuggingFace, HuggingFaceProcess, LlamaServer, Verifier, cpu_seconds

# What llama.cpp's server is tried with; the best of each group is what it is compared with, anew for every cell.
LLAMA_PLAIN = {
    "flash attention on": ("--flash-attn", "on"),
    "flash attention off": ("--flash-attn", "off"),
}
LLAMA_DRAFT_COMMON = ("--flash-attn", "on", "--spec-type", "draft-simple")
LLAMA_DRAFT = [
    # (most draft tokens, least probability of a draft token, the draft's file, how it draws)
    (2, 0.0, "draft-q8_0.gguf", "greedy"),
    (3, 0.0, "draft-q8_0.gguf", "greedy"),
    (3, 0.4, "draft-q8_0.gguf", "greedy"),
    (5, 0.4, "draft-q8_0.gguf", "greedy"),
    (3, 0.4, "draft-bf16.gguf", "greedy"),
    (3, 0.0, "draft-q8_0.gguf", "probabilistic"),
]
HUGGING_FACE_ASSISTANT = [
    {"num_assistant_tokens": 2, "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0},
    {"num_assistant_tokens": 3, "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.0},
    {"num_assistant_tokens": 5, "num_assistant_tokens_schedule": "constant", "assistant_confidence_threshold": 0.4},
]

OURS, OURS_PLAIN = "specfleet", "specfleet, plain"
LLAMA, LLAMA_DRAFTED = "llama.cpp", "llama.cpp with draft"
# With 8-bit weights: other models, and so a class of their own.
OURS_INT8, OURS_INT8_PLAIN = "specfleet int8", "specfleet int8, plain"
LLAMA_Q8, LLAMA_Q8_DRAFTED = "llama.cpp Q8_0", "llama.cpp Q8_0 with draft"
HUGGING, HUGGING_ASSISTED = "Hugging Face", "Hugging Face assisted"

# What all prompts begin with, before their number: so much of a prompt may be in a cache.
MOST_CACHED = 16
# An idle server that takes more of a processor than this would be measured in everybody else's figures.
IDLE_LIMIT = 0.02
IDLE_SECONDS = 2.0


class Plan:
    """How much is measured."""

    def __init__(self, quick, n_prompts, max_tokens):
        self.streams = [1, 4] if quick else [1, 4, 16]
        self.temperatures = [0.0, 0.8]
        self.n_prompts = 4 if quick else n_prompts
        self.max_tokens = 24 if quick else max_tokens
        self.passes = {1: 1, 4: 1, 16: 1} if quick else {1: 1, 4: 2, 16: 4}
        self.n_trials = {1: 1, 4: 1, 16: 1} if quick else {1: 4, 4: 2, 16: 2}

    def batches(self, streams):
        """Prompt numbers: batches of exactly `streams` that hold every prompt at least once, for each pass."""
        firsts = range(0, self.n_prompts, streams)
        return [[(first + i) % self.n_prompts for i in range(streams)] for first in firsts] * self.passes[streams]


class Bench:
    """The systems, each group with all settings that are tried, and the prompts."""

    def __init__(self, plan, groups, prompts, verifier):
        self.plan, self.groups, self.prompts, self.verifier = plan, groups, prompts, verifier
        self.numbers = count(1)

    def token_ids(self, prompt_number):
        """The prompt with a number in front, so that nobody finds it in a cache. All systems get the same ids."""
        system = f"Request {next(self.numbers):04d}. You are a helpful AI assistant."
        prompt = self.prompts[prompt_number]["prompt"]
        messages = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        return post(self.verifier, "/tokenize", {"messages": messages})["tokens"]

    def cell(self, streams, temperature):
        systems, trials = self.choose(streams, temperature)
        batches = []
        for position, numbers in enumerate(self.plan.batches(streams)):
            prompts = [self.token_ids(number) for number in numbers]
            say(f"{table.name_of(streams, temperature)}: batch {position + 1}")
            # Another one is first in each batch.
            turn = position % len(systems)
            runs = self.run_all(systems[turn:] + systems[:turn], prompts, temperature)
            batches.append({"prompts": numbers, "runs": runs})
        return table.Cell(streams, temperature, {system.group: system.settings for system in systems}, trials, batches)

    def choose(self, streams, temperature):
        """The best of each group, by tokens a second over a few batches, and what each setting reached."""
        groups = {name: group for name, group in self.groups.items() if streams == 1 or name != HUGGING_ASSISTED}
        everything = [system for group in groups.values() for system in group]
        warm = [self.token_ids(number) for number in self.plan.batches(streams)[0]]
        for system in everything:
            system.run(warm, temperature, 8)
        reached = {}
        tried = [system for group in groups.values() if len(group) > 1 for system in group]
        batches = self.plan.batches(streams)
        step = max(1, len(batches) // self.plan.n_trials[streams])
        for numbers in batches[::step][: self.plan.n_trials[streams]]:
            say(f"{table.name_of(streams, temperature)}: which settings are best?")
            prompts = [self.token_ids(number) for number in numbers]
            for system in tried:
                batch = system.run(prompts, temperature, self.plan.max_tokens)
                n_tokens, seconds = reached.get(system, (0, 0.0))
                reached[system] = (n_tokens + batch.n_tokens, seconds + batch.seconds)
        speeds = {system: n_tokens / seconds for system, (n_tokens, seconds) in reached.items()}
        best = [max(group, key=lambda system: speeds.get(system, 0.0)) for group in groups.values()]
        trials = [
            {"group": system.group, "settings": system.settings, "flags": system.flags, "tokens_per_second": speed}
            for system, speed in speeds.items()
        ]
        return best, trials

    def run_all(self, systems, prompts, temperature):
        runs = {}
        for system in systems:
            batch = system.run(prompts, temperature, self.plan.max_tokens)
            for answer, prompt in zip(batch.answers, prompts):
                if answer.n_prompt != len(prompt):
                    raise SystemExit(f"{system.name} saw {answer.n_prompt} tokens of a prompt of {len(prompt)}")
                if answer.n_cached > MOST_CACHED:
                    raise SystemExit(f"{system.name} had {answer.n_cached} tokens of a prompt in its cache")
            runs[system.group] = batch
        return runs


def start(args, models, logs):
    """All systems, by group; and those that have to be stopped."""
    n_threads = os.cpu_count()
    ours = {
        OURS: (args.verifier, True),
        OURS_PLAIN: (args.plain_verifier, False),
        OURS_INT8: (args.int8_verifier, True),
        OURS_INT8_PLAIN: (args.int8_plain_verifier, False),
    }
    groups = {
        name: [Verifier(name, address, args.pids, speculative)]
        for name, (address, speculative) in ours.items()
        if address
    }
    started = []

    def llama(name, settings, model, more):
        say(f"starting {name}, {settings}")
        started.append(LlamaServer(name, settings, args.llama_server, models / model, n_threads, logs, more))
        return started[-1]

    groups[LLAMA] = [llama(LLAMA, settings, "target-bf16.gguf", more) for settings, more in LLAMA_PLAIN.items()]
    groups[LLAMA_DRAFTED] = [
        llama(LLAMA_DRAFTED, *draft_setting("target-bf16.gguf", models, *setting))
        for setting in (LLAMA_DRAFT[1:3] if args.quick else LLAMA_DRAFT)
    ]
    groups[LLAMA_Q8] = [llama(LLAMA_Q8, settings, "target-q8_0.gguf", more) for settings, more in LLAMA_PLAIN.items()]
    groups[LLAMA_Q8_DRAFTED] = [
        llama(LLAMA_Q8_DRAFTED, *draft_setting("target-q8_0.gguf", models, *setting))
        for setting in (LLAMA_DRAFT[1:3] if args.quick else LLAMA_DRAFT[:3])
    ]
    if not args.without_hugging_face:
        say("starting Hugging Face")
        worker = HuggingFaceProcess(models, n_threads, logs)
        started.append(worker)
        groups[HUGGING] = [HuggingFace(HUGGING, worker)]
        settings = HUGGING_FACE_ASSISTANT[1:2] if args.quick else HUGGING_FACE_ASSISTANT
        groups[HUGGING_ASSISTED] = [HuggingFace(HUGGING_ASSISTED, worker, setting) for setting in settings]
    for name, group in groups.items():
        for system in group:
            system.group = name
    return groups, started


def draft_setting(target, models, n_max, p_min, draft, sampling):
    """In words, the target, and as flags."""
    more = (
        *LLAMA_DRAFT_COMMON,
        *("--spec-draft-model", str(models / draft), "--spec-draft-n-max", str(n_max)),
        *("--spec-draft-p-min", str(p_min), "--spec-draft-sampling", sampling),
    )
    kind = draft.removeprefix("draft-").removesuffix(".gguf")
    return f"{n_max} tokens, from {p_min:g}, {kind}, {sampling}", target, more


def check_idle(groups):
    """The share of a processor that each process takes while nobody asks it anything."""
    pids = {pid: system.name for group in groups.values() for system in group for pid in system.pids}
    before = {pid: cpu_seconds(pid) for pid in pids}
    time.sleep(IDLE_SECONDS)
    shares = {pid: (cpu_seconds(pid) - before[pid]) / IDLE_SECONDS for pid in pids}
    for pid, share in shares.items():
        if share > IDLE_LIMIT:
            say(f"warning: {pids[pid]} takes {share:.0%} of a processor while idle")
    return [{"system": pids[pid], "processor_share": share} for pid, share in shares.items()]


def spread(prompts, n_prompts):
    """So many of the prompts, from all parts of the list."""
    return [prompts[index * len(prompts) // n_prompts] for index in range(n_prompts)]


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--verifier", type=address, required=True, help="HOST:PORT of our verifier's HTTP")
    parser.add_argument("--plain-verifier", type=address, required=True, help="the same of one without a draft")
    parser.add_argument("--int8-verifier", type=address, help="the same of one with int8 weights")
    parser.add_argument("--int8-plain-verifier", type=address, help="the same of one with int8 weights and no draft")
    parser.add_argument("--pids", type=int, nargs="*", default=[], help="our processes: they are checked to be idle")
    parser.add_argument("--models", type=Path, required=True, help="the folder that checkpoints.py wrote")
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--prompts", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True, help="the folder for results.json, table.md and logs")
    parser.add_argument("--page", type=Path, help="a page whose measured part is replaced")
    parser.add_argument("--n-prompts", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--without-hugging-face", action="store_true")
    parser.add_argument("--quick", action="store_true")
    return parser.parse_args()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def main():
    args = arguments()
    # As on Ctrl-C, what was started is stopped.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    plan = Plan(args.quick, args.n_prompts, args.max_tokens)
    prompts = [json.loads(line) for line in args.prompts.read_text().splitlines()]
    args.results.mkdir(parents=True, exist_ok=True)
    began, load = time.time(), os.getloadavg()
    if load[0] > 0.5:
        say(f"warning: this machine is busy (load {load[0]:.1f}); the figures will be of its other work too")
    groups, started = start(args, args.models, args.results)
    try:
        bench = Bench(plan, groups, spread(prompts, plan.n_prompts), args.verifier)
        idle = check_idle(groups)
        cells = [bench.cell(streams, t) for streams in plan.streams for t in plan.temperatures]
        agreement = table.agreement(cells[0], OURS_PLAIN, args.verifier)
    finally:
        for system in started:
            system.stop()
    about = machine.describe(args.verifier) | {
        "load_before": load,
        "idle": idle,
        "prompts": plan.n_prompts,
        "max_tokens": plan.max_tokens,
        "seconds": time.time() - began,
    }
    report = {"about": about, "agreement": agreement, "cells": [cell.to_json() for cell in cells]}
    (args.results / "results.json").write_text(json.dumps(report) + "\n")
    text = table.render(about, agreement, cells)
    (args.results / "table.md").write_text(text)
    if args.page:
        table.replace_measured(args.page, text)
    print(text)
    say(f"written to {args.results}")


if __name__ == "__main__":
    main()
