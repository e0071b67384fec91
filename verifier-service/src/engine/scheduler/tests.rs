use super::*;

fn decoding(n_draft: usize, last_turn: u64) -> Option<Candidate> {
    Some(Candidate { n_pending: 1, n_draft, last_turn, mask_cost: Duration::ZERO })
}

fn prompt(n_pending: usize) -> Option<Candidate> {
    Some(Candidate { n_pending, n_draft: 0, last_turn: 0, mask_cost: Duration::ZERO })
}

fn grant(index: usize, n_fed: usize, n_draft: usize) -> Grant {
    Grant { index, work: Work { n_fed, n_draft } }
}

#[test]
fn rounds_of_any_length_share_a_pass() {
    let candidates = [decoding(0, 0), decoding(4, 0), None, decoding(1, 0)];
    assert_eq!(plan(&candidates, 16), [grant(0, 1, 0), grant(1, 1, 4), grant(3, 1, 1)]);
}

#[test]
fn a_prompt_rides_along_with_what_is_left() {
    let candidates = [decoding(3, 0), prompt(100), prompt(5)];
    assert_eq!(plan(&candidates, 16), [grant(0, 1, 3), grant(1, 12, 0)]);
}

#[test]
fn a_short_prompt_leaves_room_for_the_next() {
    assert_eq!(plan(&[prompt(5), prompt(100)], 16), [grant(0, 5, 0), grant(1, 11, 0)]);
}

#[test]
fn a_short_prompt_does_not_wait_for_a_long_one() {
    let candidates = [prompt(1000), prompt(5), prompt(300), prompt(20), prompt(12)];
    assert_eq!(plan(&candidates, 128), [grant(0, 103, 0), grant(1, 5, 0), grant(3, 20, 0)]);
}

#[test]
fn short_prompts_leave_a_long_one_most_of_its_rows() {
    let candidates: Vec<_> = std::iter::once(prompt(1000)).chain((0..50).map(|_| prompt(4))).collect();
    let grants = plan(&candidates, 64);
    assert_eq!(grants[0], grant(0, 48, 0));
    assert_eq!(grants.len(), 5);
}

#[test]
fn decoding_cannot_starve_a_prompt() {
    let candidates = [decoding(3, 0), decoding(3, 0), decoding(3, 0), decoding(3, 0), prompt(9)];
    let grants = plan(&candidates, 16);
    assert_eq!(grants.len(), 4, "three rounds and the prompt");
    assert_eq!(grants[3], grant(4, 4, 0));
}

/// The smallest budget that is allowed: the rows of one round.
#[test]
fn rounds_as_long_as_the_budget_take_turns_with_a_prompt() {
    let (mut last_turn, mut n_served) = ([0_u64; 3], [0; 3]);
    for turn in 1..=30 {
        let candidates = [decoding(17, last_turn[0]), decoding(17, last_turn[1]), prompt(1000)];
        let prompt = candidates[2].map(|prompt| Candidate { last_turn: last_turn[2], ..prompt });
        let grants = plan(&[candidates[0], candidates[1], prompt], 18);
        assert_eq!(grants.len(), 1);
        last_turn[grants[0].index] = turn;
        n_served[grants[0].index] += 1;
    }
    assert_eq!(n_served, [10; 3]);
}

#[test]
fn who_was_left_out_is_next() {
    let (mut last_turn, mut n_served, mut turn) = ([0_u64; 5], [0; 5], 0);
    for _ in 0..20 {
        let grants = plan(&last_turn.map(|last_turn| decoding(7, last_turn)), 16);
        assert_eq!(grants.len(), 2);
        for Grant { index, .. } in grants {
            turn += 1;
            last_turn[index] = turn;
            n_served[index] += 1;
        }
    }
    assert_eq!(n_served, [8; 5]);
}

#[test]
fn a_long_round_is_not_overtaken_for_ever() {
    let candidates = [decoding(0, 5), decoding(0, 6), decoding(3, 4)];
    assert_eq!(plan(&candidates, 4), [grant(2, 1, 3)]);
}

#[test]
fn many_long_rounds_never_exceed_the_budget() {
    let grants = plan(&vec![decoding(8, 0); 256], 128);
    let n_rows: usize = grants.iter().map(|grant| grant.work.n_rows()).sum();
    assert_eq!(n_rows, 14 * 9);
}

/// With a grammar whose masks take so long.
fn masked(candidate: Option<Candidate>, millis: u64) -> Option<Candidate> {
    candidate.map(|candidate| Candidate { mask_cost: Duration::from_millis(millis), ..candidate })
}

fn served(candidates: &[Option<Candidate>]) -> Vec<usize> {
    plan(candidates, 128).into_iter().map(|grant| grant.index).collect()
}

#[test]
fn masks_share_a_budget_of_time_and_hold_up_nobody_else() {
    let dear = |last_turn| masked(decoding(0, last_turn), 3);
    assert_eq!(served(&[dear(1), dear(2), dear(3), dear(4), decoding(5, 5)]), [0, 1, 4]);
    // A round has a mask for each draft token and one more.
    assert_eq!(served(&[masked(decoding(1, 1), 3), dear(2), decoding(0, 3)]), [0, 2]);
    // What is no burden rides along.
    let cheap = decoding(0, 9).map(|cheap| Candidate { mask_cost: Duration::from_micros(100), ..cheap });
    assert_eq!(served(&[dear(1), dear(2), dear(3), cheap, cheap]), [0, 1, 3, 4]);
}

#[test]
fn masks_that_take_more_than_the_budget_take_turns_one_by_one() {
    let (mut last_turn, mut n_served, mut turn) = ([0_u64; 5], [0; 5], 0);
    for _ in 0..24 {
        // The last one asks for nothing, and the one before it for little.
        let costs = [50, 9, 50, 3, 0];
        let candidates: Vec<_> =
            last_turn.iter().zip(costs).map(|(&turn, cost)| masked(decoding(2, turn), cost)).collect();
        for index in served(&candidates) {
            turn += 1;
            last_turn[index] = turn;
            n_served[index] += 1;
        }
    }
    assert_eq!(n_served, [6, 6, 6, 6, 24]);
}

#[test]
fn a_form_that_nobody_knows_takes_a_pass_for_each_mask_and_gets_no_drafts() {
    let unknown = |last_turn| decoding(0, last_turn).map(|it| Candidate { mask_cost: UNKNOWN_MASK, ..it });
    assert_eq!(served(&[unknown(3), unknown(1), unknown(2), decoding(0, 4)]), [1, 3]);
    assert_eq!(served(&[unknown(2), masked(decoding(0, 1), 1), decoding(0, 3)]), [1, 2]);
    assert_eq!(n_draft_masked(UNKNOWN_MASK), 0);
}

#[test]
fn a_prompt_that_ends_beside_dear_masks_is_fed_but_for_its_last_token() {
    let candidates = [masked(decoding(0, 0), 8), masked(prompt(9), 2), prompt(9), masked(prompt(200), 2)];
    assert_eq!(plan(&candidates, 40), [grant(0, 1, 0), grant(1, 8, 0), grant(2, 9, 0), grant(3, 21, 0)]);
}

#[test]
fn dear_masks_leave_room_for_fewer_draft_tokens_or_none() {
    let n_draft = [0, 1, 2, 4, 8, 50].map(|millis| n_draft_masked(Duration::from_millis(millis)));
    assert_eq!(n_draft, [usize::MAX, 7, 3, 1, 0, 0]);
}
