"""The systems that are compared: how each is started, and how the same request is put to it.

Everything that is asked for is the same: the prompt as token ids, the number of tokens, the temperature, and no cut or
penalty. Each system keeps its processes for the whole run; while others are measured they are idle.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

from answers import Answer, Batch
from streams import Failed, post_all

HERE = Path(__file__).resolve().parent
START_SECONDS = 120
LLAMA_SLOTS = 16
# 1024 tokens for each slot, as our verifier's KV memory holds by default.
LLAMA_CONTEXT = 16 * 1024


class Verifier:
    """Our verifier, over HTTP; one with a draft, or one without."""

    def __init__(self, name, address, pids, speculative):
        self.name, self.address, self.pids, self.speculative = name, address, pids, speculative
        self.settings = "as deploy/local/up starts it" + ("" if speculative else ", without --draft")
        self.flags = []

    def run(self, prompts, temperature, max_tokens):
        body = {
            "stream": True,
            "stream_options": {"include_usage": True},
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": 1,
            "top_k": 0,
            "min_p": 0,
            "presence_penalty": 0,
            "frequency_penalty": 0,
            "repetition_penalty": 1,
            # Tells the tokens of a chunk. The work for it counts against this server.
            "logprobs": 0,
        }
        streams = post_all(self.address, "/v1/completions", [{**body, "prompt": prompt} for prompt in prompts])
        return Batch([self._answer(sent_at, events) for sent_at, events in streams])

    def _answer(self, sent_at, events):
        if "error" in events[-1][1]:
            raise Failed(json.dumps(events[-1][1]))
        usage = events[-1][1]["usage"]
        chunks = [
            (when, choice["logprobs"]["tokens"])
            for when, event in events
            for choice in event["choices"]
            if choice["logprobs"]
        ]
        arrivals = [(when, len(tokens)) for when, tokens in chunks if tokens]
        tokens = [token for _, some in chunks for token in some]
        accepted = usage["speculation"]["accepted"] if self.speculative else None
        n_cached = usage["prompt_tokens_details"]["cached_tokens"]
        return Answer(
            sent_at, arrivals, tokens, usage["prompt_tokens"], usage["completion_tokens"], accepted, n_cached
        )


class LlamaServer:
    """llama.cpp's server; with a draft model, or without."""

    def __init__(self, name, settings, program, model, n_threads, log_folder, more=()):
        port = free_port()
        self.name, self.settings, self.address = name, settings, ("127.0.0.1", port)
        self.speculative = "--spec-draft-model" in more
        flags = ["--model", str(model), "--threads", str(n_threads), "--parallel", str(LLAMA_SLOTS)]
        flags += ["--ctx-size", str(LLAMA_CONTEXT), "--cache-ram", "0", "--no-ui", *more]
        self.flags = [re.sub(r"^/.*/", "", flag) for flag in flags]
        log = open(Path(log_folder) / f"{re.sub(r'[^a-z0-9]+', '-', name)}-{port}.log", "w")
        command = [program, "--host", "127.0.0.1", "--port", str(port), *flags]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pids = [self.process.pid]
        wait_for_health(self.address, self.process, log.name)

    def run(self, prompts, temperature, max_tokens):
        body = {
            "stream": True,
            "return_tokens": True,
            "n_predict": max_tokens,
            "temperature": temperature,
            # Only this one: nothing is cut and nothing penalised.
            "samplers": ["temperature"],
        }
        streams = post_all(self.address, "/completion", [{**body, "prompt": prompt} for prompt in prompts])
        return Batch([self._answer(sent_at, events) for sent_at, events in streams])

    def _answer(self, sent_at, events):
        last = events[-1][1]
        if not last.get("stop"):
            raise Failed(json.dumps(last))
        chunks = [(when, event["tokens"]) for when, event in events if event["tokens"]]
        tokens = [token for _, some in chunks for token in some]
        accepted = last["timings"].get("draft_n_accepted", 0) if self.speculative else None
        arrivals = [(when, len(some)) for when, some in chunks]
        timings = last["timings"]
        n_tokens, n_cached = timings["predicted_n"], timings["cache_n"]
        return Answer(sent_at, arrivals, tokens, last["tokens_evaluated"], n_tokens, accepted, n_cached)

    def stop(self):
        end(self.process)


class HuggingFaceProcess:
    """The process that `HuggingFace` asks, with target and draft."""

    def __init__(self, folder, n_threads, log_folder):
        command = [sys.executable, HERE / "hugging_face.py", folder / "target", folder / "draft", str(n_threads)]
        self.log = open(Path(log_folder) / "hugging-face.log", "w")
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.log, text=True, env=environment)
        self.read()

    def ask(self, request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"Hugging Face's process has ended; its log is {self.log.name}")
        return json.loads(line)

    def stop(self):
        end(self.process)


class HuggingFace:
    """`generate`; with an assistant model, or without."""

    def __init__(self, name, worker, assistant=None):
        self.name, self.worker, self.assistant = name, worker, assistant
        self.speculative, self.pids = assistant is not None, [worker.process.pid]
        self.settings = "bf16"
        self.flags = [f"{name}={value}" for name, value in (assistant or {}).items()]
        if assistant:
            n_tokens, least = assistant["num_assistant_tokens"], assistant["assistant_confidence_threshold"]
            self.settings = f"{n_tokens} tokens, from {least:g}"

    def run(self, prompts, temperature, max_tokens):
        request = {"prompts": prompts, "max_tokens": max_tokens, "temperature": temperature}
        sent_at = time.monotonic()
        answers = self.worker.ask(request | {"assistant": self.assistant})
        return Batch([
            Answer(sent_at, got["arrivals"], got["tokens"], len(prompt), len(got["tokens"]), got["n_accepted"])
            for got, prompt in zip(answers, prompts)
        ])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_health(address, process, log):
    limit = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < limit:
        try:
            with socket.create_connection(address, timeout=5) as connection:
                connection.sendall(b"GET /health HTTP/1.0\r\n\r\n")
                if b" 200 " in connection.recv(64):
                    return
        except OSError:
            pass
        time.sleep(0.1)
    raise Failed(f"{process.args[0]} did not become ready; its log is {log}")


def end(process):
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()


def cpu_seconds(pid):
    """Processor time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
