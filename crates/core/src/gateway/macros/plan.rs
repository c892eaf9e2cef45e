//! Order of a macro's steps: each starts once the steps that it depends on are done.

use mcp_workbench_settings::StepConfig;

#[derive(Debug)]
pub(crate) struct Plan<'a> {
    steps: Vec<(&'a [usize], StepProgress)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepProgress {
    Waiting,
    Begun,
    Done,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(steps: &'a [StepConfig]) -> Self {
        Self::of(steps.iter().map(|step| step.needs.as_slice()))
    }

    fn of(needs: impl Iterator<Item = &'a [usize]>) -> Self {
        Self { steps: needs.map(|needs| (needs, StepProgress::Waiting)).collect() }
    }

    /// Starts up to `most` steps whose dependencies are done and returns them, in order.
    pub(crate) fn begin(&mut self, most: usize) -> Vec<usize> {
        let is_done = |step: &usize| self.steps[*step].1 == StepProgress::Done;
        let steps = self.steps.iter().enumerate();
        let ready: Vec<usize> = steps
            .filter(|(_, (needs, stage))| {
                *stage == StepProgress::Waiting && needs.iter().all(is_done)
            })
            .map(|(step, _)| step)
            .take(most)
            .collect();
        for step in &ready {
            self.steps[*step].1 = StepProgress::Begun;
        }
        ready
    }

    pub(crate) fn done(&mut self, step: usize) {
        self.steps[step].1 = StepProgress::Done;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::{Just, Strategy, any, proptest};
    use proptest::sample::Index;

    use super::Plan;

    /// A random dependency graph without cycles.
    fn needs() -> impl Strategy<Value = Vec<Vec<usize>>> {
        let sizes = vec(vec(any::<Index>(), 0..4), 1..24);
        sizes.prop_flat_map(|wanted| {
            let order: Vec<usize> = (0..wanted.len()).collect();
            (Just(wanted), Just(order).prop_shuffle()).prop_map(|(wanted, order)| {
                let mut needs = vec![Vec::new(); order.len()];
                for (at, wanted) in wanted.iter().enumerate().skip(1) {
                    needs[order[at]] = wanted.iter().map(|w| order[w.index(at)]).collect();
                }
                needs
            })
        })
    }

    proptest! {
        #[test]
        fn every_step_runs_once_after_its_dependencies(
            needs in needs(),
            picks in vec(any::<Index>(), 24),
            most in 1_usize..9,
        ) {
            let mut plan = Plan::of(needs.iter().map(Vec::as_slice));
            let (mut running, mut begun, mut done) = (plan.begin(most), HashSet::new(), HashSet::new());
            begun.extend(running.iter().copied());
            let mut picks = picks.iter().cycle();
            while !running.is_empty() {
                let ended = running.swap_remove(picks.next().unwrap().index(running.len()));
                plan.done(ended);
                assert!(done.insert(ended));
                for step in plan.begin(most - running.len()) {
                    assert!(begun.insert(step), "{step} ran twice");
                    assert!(needs[step].iter().all(|need| done.contains(need)));
                    running.push(step);
                }
                // Every runnable step runs, up to the limit.
                assert!(running.len() <= most);
                for (step, needs) in needs.iter().enumerate() {
                    let could = needs.iter().all(|need| done.contains(need));
                    assert!(could || !begun.contains(&step));
                    assert!(begun.contains(&step) || !could || running.len() == most);
                }
            }
            assert_eq!(done.len(), needs.len());
        }
    }
}
