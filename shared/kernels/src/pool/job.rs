//! What the workers of a pool share: the current piece of work and the counters around it.
//!
//! The order that makes it sound: the caller writes the job, then `unfinished`, then opens
//! `unclaimed` (release). A worker that takes one from `unclaimed` (acquire) therefore sees the
//! job, and the job stays until that worker has counted its chunk off `unfinished` (release),
//! because the caller waits for zero there (acquire). A helper that comes late, even in the middle
//! of a later job, finds either nothing to claim or a chunk of the job that is current then.
#![allow(unsafe_code)]

use std::{
    any::Any,
    cell::UnsafeCell,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex, PoisonError,
        atomic::{
            AtomicBool, AtomicUsize,
            Ordering::{AcqRel, Acquire, Relaxed, Release},
        },
    },
    thread,
};

/// Turns of a waiting loop before it lets other threads have the core: some 20 microseconds,
/// which is longer than anything between two products of a step.
const SPINS: u32 = 1000;

/// A counter with a cache line (and the neighbour that is fetched with it) of its own.
#[derive(Default)]
#[repr(align(128))]
struct Counter(AtomicUsize);

/// `body` of one call of `run`, without its type and lifetime.
struct Job {
    n_chunks: usize,
    body: *const (),
    call: unsafe fn(*const (), usize),
}

/// See the module's text.
#[derive(Default)]
pub(super) struct Shared {
    unclaimed: Counter,
    unfinished: Counter,
    steps: Counter,
    job: UnsafeCell<Option<Job>>,
    busy: AtomicBool,
    stopping: AtomicBool,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

// SAFETY: `job` is written only by the thread that holds `busy` while no chunk is unclaimed or
// unfinished, and read only between a claim and its count-off (see the module's text). The body
// it points to is `Sync`. All other fields are Sync by themselves.
unsafe impl Sync for Shared {}
// SAFETY: as above; the pointer in `job` is not tied to a thread.
unsafe impl Send for Shared {}

impl Shared {
    /// The caller's side: publish, work along, wait.
    pub(super) fn run<F: Fn(usize) + Sync>(&self, n_chunks: usize, body: &F) {
        if self.busy.swap(true, Acquire) {
            (0..n_chunks).for_each(body);
            return;
        }
        // SAFETY: `busy` is ours and the job before this one is finished, so nobody reads it.
        unsafe {
            *self.job.get() = Some(Job { n_chunks, body: std::ptr::from_ref(body).cast(), call: call::<F> });
        }
        self.unfinished.0.store(n_chunks, Relaxed);
        self.unclaimed.0.store(n_chunks, Release);
        while self.work() {}
        let mut patience = Patience::default();
        while self.unfinished.0.load(Acquire) > 0 {
            patience.wait();
        }
        let panic = self.lock_panic().take();
        self.busy.store(false, Release);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }

    /// A helper's life.
    pub(super) fn help(&self) {
        let mut patience = Patience::default();
        while !self.stopping.load(Acquire) {
            if self.work() {
                patience = Patience::default();
            } else if self.steps.0.load(Acquire) == 0 {
                thread::park();
            } else {
                patience.wait();
            }
        }
    }

    /// Whether it is the first of nested steps, so that helpers must be woken.
    pub(super) fn begin_step(&self) -> bool {
        self.steps.0.fetch_add(1, AcqRel) == 0
    }

    pub(super) fn end_step(&self) {
        self.steps.0.fetch_sub(1, AcqRel);
    }

    pub(super) fn stop(&self) {
        self.stopping.store(true, Release);
    }

    /// Does one chunk, if there is one to claim.
    fn work(&self) -> bool {
        let Some(n_left) = self.claim() else {
            return false;
        };
        // SAFETY: we hold a claim, so the job is there, complete, and stays until we count it off;
        // the body's borrow outlives the `run` that waits for that.
        let outcome = unsafe {
            let job = (*self.job.get()).as_ref().expect("a claim without a job");
            catch_unwind(AssertUnwindSafe(|| {
                (job.call)(job.body, job.n_chunks - n_left);
            }))
        };
        if let Err(payload) = outcome {
            *self.lock_panic() = Some(payload);
        }
        self.unfinished.0.fetch_sub(1, Release);
        true
    }

    /// The number of chunks that were unclaimed, this one included.
    fn claim(&self) -> Option<usize> {
        let mut n_left = self.unclaimed.0.load(Relaxed);
        while n_left > 0 {
            match self.unclaimed.0.compare_exchange_weak(n_left, n_left - 1, Acquire, Relaxed) {
                Ok(_) => return Some(n_left),
                Err(seen) => n_left = seen,
            }
        }
        None
    }

    fn lock_panic(&self) -> std::sync::MutexGuard<'_, Option<Box<dyn Any + Send>>> {
        self.panic.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// # Safety
/// `body` points to a living `F`.
unsafe fn call<F: Fn(usize) + Sync>(body: *const (), chunk: usize) {
    // SAFETY: the caller's promise.
    unsafe { (*body.cast::<F>())(chunk) }
}

/// Waits a little longer each time: first within the core, then by letting others run.
#[derive(Default)]
struct Patience {
    spins: u32,
}

impl Patience {
    fn wait(&mut self) {
        if self.spins < SPINS {
            self.spins += 1;
            std::hint::spin_loop();
        } else {
            thread::yield_now();
        }
    }
}
