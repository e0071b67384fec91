//! Every lie is found, and after how many tested positions.

use specfleet_speculation::honesty::Test;

use crate::habit::Habit;
use crate::rows::Rows;
use crate::simulation::Simulation;
use crate::{is_long, say};

/// Runs until the draft is failed, and says how long that took.
fn catch(simulation: &Simulation<'_>, limit: u64) -> Test {
    let audit = simulation.audit(limit);
    let (figures, failed) = (audit.figures(), audit.failed());
    let Simulation { habit, begins_at, temperature, .. } = simulation;
    say(&format!(
        "{habit:?} at temperature {temperature} from position {begins_at}: {failed:?} at position {} ({} passed, {:.1} expected)",
        figures.positions, figures.accepted, figures.expected_accepted
    ));
    failed.unwrap_or_else(|| panic!("{habit:?} was not found: {figures:?}"))
}

#[test]
fn a_draft_that_truncates_after_the_draw_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::TruncatesAfterDraw), 20_000), Test::Rank);
}

#[test]
fn a_draft_that_drops_unlikely_tokens_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::DropsUnlikely), 20_000), Test::Rank);
}

#[test]
fn a_draft_that_draws_at_another_temperature_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::Cooler), 20_000), Test::Rank);
}

#[test]
fn a_greedy_draft_that_reports_softmax_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::Greedy), 20_000), Test::Rank);
}

#[test]
fn a_draft_that_draws_a_proposal_with_one_number_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::OneNumber), 20_000), Test::Rank);
}

#[test]
fn a_draft_that_adds_noise_in_half_precision_is_caught() {
    assert_eq!(catch(&Simulation::of(&Rows::new(), Habit::AddsNoiseInHalfPrecision), 100_000), Test::Rank);
}

/// Rounding pushes a token up here and down there, which cancels over positions. What is left is that distributions get
/// flatter, and that shows where quotients by the temperature are large, so that the values of bf16 are far apart.
#[test]
fn a_draft_that_rounds_logits_to_half_precision_is_caught() {
    let rows = Rows::wide_open();
    for temperature in [0.1, 0.2] {
        catch(&Simulation { temperature, ..Simulation::of(&rows, Habit::RoundsLogits) }, 1_000_000);
    }
}

#[test]
fn a_lie_that_begins_late_is_caught() {
    let begins_at = if is_long() { 3_000_000 } else { 100_000 };
    let rows = Rows::new();
    for habit in [Habit::Greedy, Habit::Cooler, Habit::TruncatesAfterDraw] {
        catch(&Simulation { begins_at, ..Simulation::of(&rows, habit) }, begins_at + 20_000);
    }
}
