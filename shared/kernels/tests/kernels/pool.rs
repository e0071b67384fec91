use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
};

use crate::pool;

#[test]
fn every_chunk_runs_once() {
    for n_threads in 1..=5 {
        let Some(pool) = pool(n_threads) else { return };
        assert_eq!(pool.n_threads(), n_threads);
        for n_chunks in [0, 1, 2, 3, 7, 100, 1000] {
            let counts: Vec<_> = (0..n_chunks).map(|_| AtomicUsize::new(0)).collect();
            pool.run(n_chunks, |chunk| {
                counts[chunk].fetch_add(1, SeqCst);
            });
            assert!(counts.iter().all(|count| count.load(SeqCst) == 1));
        }
    }
}

#[test]
fn helpers_take_part() {
    let Some(pool) = pool(2) else { return };
    let threads = Mutex::new(std::collections::HashSet::new());
    // Each of the two chunks waits for the other to begin, so that one thread cannot do both.
    let begun = AtomicUsize::new(0);
    pool.run(2, |_| {
        begun.fetch_add(1, SeqCst);
        while begun.load(SeqCst) < 2 {
            thread::yield_now();
        }
        threads.lock().unwrap().insert(thread::current().id());
    });
    assert_eq!(threads.lock().unwrap().len(), 2);
}

#[test]
fn a_helper_that_hangs_costs_only_its_own_chunk() {
    let Some(pool) = pool(2) else { return };
    let caller = thread::current().id();
    let done = AtomicUsize::new(0);
    pool.run(50, |_| {
        if thread::current().id() != caller {
            // As if this thread had lost its core: it goes on when all other chunks are done.
            while done.load(SeqCst) < 49 {
                thread::yield_now();
            }
        }
        done.fetch_add(1, SeqCst);
    });
    assert_eq!(done.load(SeqCst), 50);
}

#[test]
fn a_panic_reaches_the_caller_and_the_pool_goes_on() {
    for n_threads in [1, 3] {
        let Some(pool) = pool(n_threads) else { return };
        for bad in [0, 5, 19] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                pool.run(20, |chunk| assert_ne!(chunk, bad, "chunk refused"));
            }));
            let message = *outcome.unwrap_err().downcast::<String>().unwrap();
            assert!(message.contains("chunk refused"), "{message}");
            let count = AtomicUsize::new(0);
            pool.run(20, |_| {
                count.fetch_add(1, SeqCst);
            });
            assert_eq!(count.load(SeqCst), 20);
        }
    }
}

#[test]
fn work_within_work_is_done_by_the_worker_itself() {
    let Some(pool) = pool(3) else { return };
    let count = AtomicUsize::new(0);
    pool.run(10, |_| {
        pool.run(10, |_| {
            count.fetch_add(1, SeqCst);
        });
    });
    assert_eq!(count.load(SeqCst), 100);
}

#[test]
fn several_callers_may_share_a_pool() {
    let Some(pool) = pool(2) else { return };
    let pool = Arc::new(pool);
    let callers: Vec<_> = (0..4)
        .map(|_| {
            let pool = Arc::clone(&pool);
            thread::spawn(move || {
                for _ in 0..200 {
                    let _awake = pool.awake();
                    let sum = AtomicUsize::new(0);
                    pool.run(9, |chunk| {
                        sum.fetch_add(chunk, SeqCst);
                    });
                    assert_eq!(sum.load(SeqCst), 36);
                }
            })
        })
        .collect();
    for caller in callers {
        caller.join().unwrap();
    }
}
