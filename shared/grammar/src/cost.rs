//! What will the next mask take?
//!
//! A mask takes microseconds or tens of milliseconds, and whoever has others to serve wants to know before it is computed.
//! The masks before it are the best guess. A new output has none, and a client may send any number of outputs that are too
//! short to be known; so what masks take is remembered with the form as well, for all of its outputs.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// How much of the dearest mask an output remembers after a cheaper one: a thread that had to wait for its core is forgotten
/// within some tokens.
const OUTPUT_MEMORY: f64 = 0.5;
/// How much a form does. Its outputs are many, and the dear masks of one are among the cheap ones of the others.
const FORM_MEMORY: f64 = 0.9;
/// Masks that make a form known.
const ENOUGH: u32 = 2;
/// Masks that make it well known. Until then the few that there are may have been its cheap ones, and an output that has none
/// of its own is not thought to be cheaper than [`LITTLE_KNOWN`].
const PLENTY: u32 = 64;
/// A few of these are a burden.
const LITTLE_KNOWN: Duration = Duration::from_millis(1);

/// What the masks of all outputs of one form have taken lately.
#[derive(Debug, Default)]
struct FormCost {
    n_masks: u32,
    dearest: Duration,
}

/// What the masks of one output have taken lately, and those of its form.
#[derive(Clone, Debug, Default)]
pub(crate) struct MaskCost {
    form: Arc<Mutex<FormCost>>,
    dearest: Option<Duration>,
    /// The dearest commit since the last mask.
    commit: Duration,
}

impl MaskCost {
    /// Of another output of the form.
    pub(crate) fn of_another(&self) -> Self {
        Self { form: self.form.clone(), dearest: None, commit: Duration::ZERO }
    }

    /// A commit has taken so long.
    pub(crate) fn committed(&mut self, took: Duration) {
        self.commit = self.commit.max(took);
    }

    /// A mask has taken so long.
    pub(crate) fn masked(&mut self, took: Duration) {
        let took = took + std::mem::take(&mut self.commit);
        let before = self.dearest.or_else(|| self.of_form()).unwrap_or_default();
        self.dearest = Some(took.max(before.mul_f64(OUTPUT_MEMORY)));
        // Nothing is left half done by a panic.
        let mut form = self.form.lock().unwrap_or_else(PoisonError::into_inner);
        form.dearest = took.max(form.dearest.mul_f64(FORM_MEMORY));
        form.n_masks = form.n_masks.saturating_add(1);
    }

    /// What the next mask is likely to take; `None` while nobody knows the form.
    pub(crate) fn next(&self) -> Option<Duration> {
        let of_form = self.of_form()?;
        Some(self.dearest.unwrap_or(of_form))
    }

    fn of_form(&self) -> Option<Duration> {
        let form = self.form.lock().unwrap_or_else(PoisonError::into_inner);
        let least = if form.n_masks < PLENTY { LITTLE_KNOWN } else { Duration::ZERO };
        (form.n_masks >= ENOUGH).then(|| form.dearest.max(least))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn a_mask_costs_what_the_dearest_of_late_cost() {
        let mut cost = MaskCost::default();
        cost.masked(millis(40));
        cost.masked(millis(80));
        assert_eq!(cost.next(), Some(millis(80)));
        cost.masked(millis(1));
        assert_eq!(cost.next(), Some(millis(40)), "which is not forgotten at once");
        (0..20).for_each(|_| cost.masked(millis(1)));
        assert_eq!(cost.next(), Some(millis(1)));
        // Of the commits before it, the dearest: the others were masked themselves.
        [2, 5, 3].into_iter().for_each(|n| cost.committed(millis(n)));
        cost.masked(millis(1));
        assert_eq!(cost.next(), Some(millis(6)));
    }

    #[test]
    fn a_form_is_unknown_until_two_masks_are_and_then_known_to_all_its_outputs() {
        let mut first = MaskCost::default();
        let (mut second, third) = (first.of_another(), first.of_another());
        first.masked(millis(50));
        assert_eq!([&first, &second, &third].map(MaskCost::next), [None; 3]);
        second.masked(millis(10));
        assert_eq!([&first, &second, &third].map(MaskCost::next), [50, 10, 45].map(|n| Some(millis(n))));
    }

    #[test]
    fn a_few_cheap_masks_say_little_about_the_first_of_another_output() {
        let cheap = Duration::from_micros(10);
        let mut first = MaskCost::default();
        (0..PLENTY - 1).for_each(|_| first.masked(cheap));
        assert!(first.next() < Some(LITTLE_KNOWN) && first.of_another().next() == Some(LITTLE_KNOWN));
        first.masked(cheap);
        assert_eq!(first.of_another().next(), Some(cheap));
    }

    #[test]
    fn outputs_of_a_dear_form_begin_dear_however_short_they_are() {
        let form = MaskCost::default();
        (0..2).for_each(|_| form.of_another().masked(millis(50)));
        for _ in 0..100 {
            let mut output = form.of_another();
            assert!(output.next() >= Some(millis(40)));
            // What is cheaper than it was thought to be is believed step by step.
            output.masked(millis(1));
            assert!(output.next() >= Some(millis(20)));
            form.of_another().masked(millis(50));
        }
        (0..100).for_each(|_| form.of_another().masked(millis(1)));
        assert_eq!(form.of_another().next(), Some(millis(1)));
    }
}
