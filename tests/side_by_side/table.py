"""From measured answers to figures, and from figures to a page."""

from dataclasses import dataclass
from statistics import median, quantiles

from streams import post

N_OPENING = 32
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


@dataclass
class Cell:
    """One number of streams at one temperature."""

    streams: int
    temperature: float
    # What each group was run with, and what else was tried.
    settings: dict
    trials: list
    # {"prompts": numbers, "runs": {group: Batch}} in order of measurement.
    batches: list

    def rows(self):
        return {group: self.row(group) for group in self.settings}

    def row(self, group):
        batches = [batch["runs"][group] for batch in self.batches]
        answers = [answer for batch in batches for answer in batch.answers]
        decoded, decode_seconds = map(sum, zip(*(answer.decode for answer in answers)))
        gaps = [seconds for answer in answers for seconds in answer.token_seconds]
        first = [answer.first_token_seconds for answer in answers]
        n_tokens = sum(batch.n_tokens for batch in batches)
        return {
            "settings": self.settings[group],
            "stream_tokens_per_second": decoded / decode_seconds,
            "all_tokens_per_second": n_tokens / sum(batch.seconds for batch in batches),
            "first_token_ms": [1000 * percentile(first, share) for share in (50, 95)],
            "token_ms": [1000 * percentile(gaps, share) for share in (50, 95)],
            "tokens_per_pass": n_tokens / sum(answer.target_passes for answer in answers),
            "is_speculative": answers[0].n_accepted is not None,
            "n_tokens": n_tokens,
        }

    def ratio(self, group, other):
        """Tokens a second of one group over those of another: of all batches together, and quartiles over batches."""
        pairs = [[batch["runs"][name] for name in (group, other)] for batch in self.batches]
        each = [(a.n_tokens / a.seconds) / (b.n_tokens / b.seconds) for a, b in pairs]
        rows = self.rows()
        whole = rows[group]["all_tokens_per_second"] / rows[other]["all_tokens_per_second"]
        return whole, (quantiles(each, n=4) if len(each) > 1 else each * 3)

    def to_json(self):
        return {
            "streams": self.streams,
            "temperature": self.temperature,
            "rows": self.rows(),
            "trials": self.trials,
            "batches": [
                {
                    "prompts": batch["prompts"],
                    "runs": {name: [answer.to_json() for answer in run.answers] for name, run in batch["runs"].items()},
                }
                for batch in self.batches
            ],
        }


def percentile(values, share):
    return median(values) if share == 50 or len(values) < 2 else quantiles(values, n=100, method="inclusive")[share - 1]


def agreement(cell, reference, verifier):
    """Of how many greedy answers the first tokens read as those of `reference` do."""

    def opening(answer):
        tokens = answer.tokens[:N_OPENING]
        if all(isinstance(token, int) for token in tokens):
            return post(verifier, "/detokenize", {"tokens": tokens})["prompt"]
        return "".join(tokens)

    answers = {}
    for batch in cell.batches:
        for group, run in batch["runs"].items():
            answers.setdefault(group, []).extend(opening(answer) for answer in run.answers)
    expected = answers.pop(reference)
    return {group: [sum(map(str.__eq__, texts, expected)), len(expected)] for group, texts in answers.items()}


def render(about, agreement, cells):
    """The measured part of the page."""
    packages = about["packages"]
    text = [
        f"Measured on {about['processor']}, {about['cores']} cores "
        f"({', '.join(about['instructions']) or 'no AVX-512 BF16'}), {about['memory_gib']} GiB, {about['system']}; "
        f"specfleet {about['revision']}, {about['llama.cpp']} built with {about['compiler']}, "
        f"torch {packages['torch']}, transformers {packages['transformers']}, Python {about['python']}. "
        f"{about['prompts']} prompts, at most {about['max_tokens']} tokens, in {about['seconds'] / 60:.0f} minutes; "
        f"load before: {about['load_before'][0]:.2f}."
    ]
    for cell in cells:
        text += ["", f"### {name_of(cell.streams, cell.temperature)}", ""]
        text += [
            "| | tokens/s of a stream | of all | first token p50, p95 | per token p50, p95 | tokens a target pass |",
            "|---|---|---|---|---|---|",
        ]
        for group, row in cell.rows().items():
            passes = f"{row['tokens_per_pass']:.2f}" if row["is_speculative"] else ""
            first, token = (", ".join(f"{value:.1f}" for value in row[key]) for key in ("first_token_ms", "token_ms"))
            text.append(
                f"| {group} | {row['stream_tokens_per_second']:.1f} | {row['all_tokens_per_second']:.1f} "
                f"| {first} ms | {token} ms | {passes} |"
            )
        text += ["", *comparisons(cell)]
    text += ["", "### Are they the same models?", ""]
    shares = "; ".join(f"{group} {same} of {n}" for group, (same, n) in agreement.items())
    text += [f"Greedy answers whose first {N_OPENING} tokens read as those of specfleet's plain decoding: {shares}."]
    text += ["", "### Settings that were tried", ""]
    text += ["Tokens/s of all streams over a few batches before each cell; the fastest, in bold, was measured then."]
    text += ["Of a draft: its longest proposal, the least probability of a token in it, its weights, how it draws.", ""]
    text += [*trials(cells)]
    return "\n".join(text) + "\n"


def trials(cells):
    """A line for each setting, a column for each cell."""
    names = [f"{cell.streams}, {cell.temperature:g}" for cell in cells]
    yield f"| streams, temperature: | | {' | '.join(names)} |"
    yield "|" + "---|" * (len(names) + 2)
    speeds = {}
    for index, cell in enumerate(cells):
        for trial in cell.trials:
            chosen = cell.settings[trial["group"]] == trial["settings"]
            speed = f"{trial['tokens_per_second']:.1f}"
            line = speeds.setdefault((trial["group"], trial["settings"]), [""] * len(cells))
            line[index] = f"**{speed}**" if chosen else speed
    for (group, settings), line in speeds.items():
        yield f"| {group} | {settings} | {' | '.join(line)} |"


def comparisons(cell):
    """The ratios that matter, as sentences."""
    rows = cell.rows()

    def pairs_of(ours, theirs):
        best = max((theirs, f"{theirs} with draft"), key=lambda group: rows[group]["all_tokens_per_second"])
        return [(f"{ours}, plain", theirs), (ours, best)]

    pairs = pairs_of("specfleet", "llama.cpp")
    if "specfleet int8" in rows:
        pairs += pairs_of("specfleet int8", "llama.cpp Q8_0")
    for ours, theirs in pairs:
        whole, (low, middle, high) = cell.ratio(ours, theirs)
        yield f"- {ours} against {theirs}: {whole:.2f} of its tokens/s (batches: {low:.2f}, {middle:.2f}, {high:.2f})"


def name_of(streams, temperature):
    drawing = "greedy" if temperature == 0 else f"temperature {temperature:g}"
    return f"{streams} stream{'s' * (streams > 1)}, {drawing}"


def replace_measured(page, text):
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{page} has no {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")
