//! What `--help` says beyond the options.

pub(super) const EXAMPLES: &str = "\
Exit codes: 0 passed, 3 failed, 4 could not judge, 1 could not run.

Examples:
  specctl audit
  specctl audit --samples 2000 --time-limit 10m --false-alarm 1e-8
  specctl audit --pin \"$(specctl identity --json | jq -r '.drafts[0].identity.version_id')\"
  specctl audit --json | jq '.checks[] | {name, verdict, numbers}'

`specctl audit --help` says what each check means.";

pub(super) const DEFINITIONS: &str = "\
The checks:
  greedy   Answers at temperature 0, with speculation and without. They must be equal, token for
           token.
  seeded   Two continuations of a seed at temperature 1, under the draft-invariant rule, likewise.
  law      Short answers without a seed, with speculation under the standard rule, and without.
           Their first tokens must have one law: a chi-square test of two samples, over the
           beginnings that are common, with rare ones put together.
  noise    The same test for the two ways to draw without a draft: the standard one, and the
           noise of the draft-invariant rule.
  honesty  What the verifier has found out about each draft version while it served: does it draw
           its tokens from the distribution that it reports? A version in quarantine fails the
           audit while a draft serves it; the text is exact even so.

The verdicts:
  passed      as promised.
  FAILED      not as promised. `law` and `noise` fail by chance with the probability that
              --false-alarm sets, both together; `greedy` and `seeded` never; `honesty` as the
              verifier is set.
  not judged  too little was seen: no draft is ready, drafts rested or came late, there was no
              time, or a draft version has proposed nothing that is audited, which requests with a
              seed are not. Less load, fewer --streams or a longer --time-limit may help.
  noted       `greedy` or `seeded` answers differ, on a target that does not promise equal bits for
              a row in any company (`specctl identity` shows its device; the fused CPU operators
              promise it, libtorch's do not). Two tokens that nearly tie may then change places
              without a fault, so this counts neither way, and the verdict rests on the laws. Also
              a draft version of which nothing was audited: because it has proposed point masses
              only, as prompt lookup does, which claim nothing that could be false, or because no
              draft serves it any more; and one in quarantine that no draft serves any more.

Exit codes:
  0  every check passed          3  a check failed
  4  no check failed, and some   1  the audit could not run, for example because the verifier
     could not be judged            cannot be reached or refuses a request

Examples:
  specctl audit
  specctl audit --samples 2000 --time-limit 10m --false-alarm 1e-8
  specctl audit --pin \"$(specctl identity --json | jq -r '.drafts[0].identity.version_id')\"
  specctl audit --json | jq '.checks[] | {name, verdict, numbers}'";
