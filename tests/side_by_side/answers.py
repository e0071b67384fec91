"""What one request got, whoever answered it: which tokens, when, and in how many passes of the target."""

from dataclasses import dataclass

# Events closer together than this left the server together: no pass of the target takes so little time. Without it a
# server that sends the tokens of a round one by one would have another latency than one that sends them in one event.
SAME_ROUND_SECONDS = 0.001


@dataclass
class Answer:
    """Times are in seconds, by the clock that all processes of a machine share."""

    sent_at: float
    # (when, how many tokens), in order.
    arrivals: list
    # Its tokens as the events name them: ids, or texts.
    tokens: list
    # As the server counts them.
    n_prompt: int
    n_tokens: int
    # Draft tokens that were accepted; each other token took a pass of the target. None without speculation.
    n_accepted: int | None = None
    # Tokens of the prompt that the server had in a cache.
    n_cached: int = 0

    def rounds(self):
        """Arrivals, with those that left the server together as one."""
        merged = []
        for when, n_tokens in self.arrivals:
            if merged and when - merged[-1][0] < SAME_ROUND_SECONDS:
                merged[-1] = (merged[-1][0], merged[-1][1] + n_tokens)
            else:
                merged.append((when, n_tokens))
        return merged

    @property
    def first_token_seconds(self):
        return self.arrivals[0][0] - self.sent_at

    @property
    def decode(self):
        """Tokens after the first arrival, and the time that they took."""
        rounds = self.rounds()
        return sum(n_tokens for _, n_tokens in rounds[1:]), rounds[-1][0] - rounds[0][0]

    @property
    def token_seconds(self):
        """For each token after the first arrival its share of the time since the arrival before."""
        rounds = self.rounds()
        gaps = []
        for (before, _), (when, n_tokens) in zip(rounds, rounds[1:]):
            gaps += [(when - before) / n_tokens] * n_tokens
        return gaps

    @property
    def target_passes(self):
        """Passes that each brought one token that no draft had proposed."""
        return self.n_tokens - (self.n_accepted or 0)

    def to_json(self):
        first = self.sent_at
        return {
            "arrivals": [[round(when - first, 6), n_tokens] for when, n_tokens in self.arrivals],
            "tokens": self.tokens,
            "n_prompt": self.n_prompt,
            "n_tokens": self.n_tokens,
            "n_accepted": self.n_accepted,
        }


@dataclass
class Batch:
    """Requests that were sent together."""

    answers: list

    @property
    def seconds(self):
        """From sending the first to the last token."""
        begin = min(answer.sent_at for answer in self.answers)
        return max(answer.arrivals[-1][0] for answer in self.answers) - begin

    @property
    def n_tokens(self):
        return sum(answer.n_tokens for answer in self.answers)
