//! Runs untrusted work (a model's chat template, its tokenizer file) on threads of its own, with a large stack and a
//! budget of memory and time. Rust aborts the process on a stack overflow or a failed allocation, and neither can be
//! caught; here the stack is too large for the budget to fill, and an allocation beyond the budget never returns: its
//! thread sleeps for good and the caller gets an error. A caller stops using the template that did this, so at most
//! one thread, with at most one budget of memory, is lost per template.

use std::alloc::{GlobalAlloc, Layout, System};
use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, Once};
use std::time::{Duration, Instant};

/// Reserved, not committed: only pages that deep recursion touches become memory.
const STACK_BYTES: usize = 1 << 30;
/// Bound on live allocations, hence on the depth of nested values and syntax trees: STACK_BYTES / MAX_ALLOCATIONS
/// bytes of stack for each.
const MAX_ALLOCATIONS: i64 = 1_000_000;
/// Idle threads kept for the next call.
const MAX_IDLE: usize = 8;

#[derive(Clone, Copy)]
pub struct Limits {
    pub bytes: i64,
    pub time: Duration,
}

#[derive(Debug)]
pub enum Failure {
    Memory,
    Time,
    Panic(String),
    /// No thread could be made.
    Unavailable(String),
}

type Job = Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>;

enum State {
    Idle,
    Waiting(Job, Limits),
    Running,
    Done(Box<dyn Any + Send>),
    Failed(Failure),
    Closed,
}

/// Where a caller and its thread meet.
struct Slot {
    state: Mutex<State>,
    changed: Condvar,
    expired: AtomicBool,
}

#[derive(Clone, Copy)]
struct Budget {
    bytes: i64,
    allocations: i64,
    /// Null outside a job.
    slot: *const Slot,
}

const NO_BUDGET: Budget = Budget { bytes: 0, allocations: 0, slot: std::ptr::null() };

thread_local! {
    static BUDGET: Cell<Budget> = const { Cell::new(NO_BUDGET) };
}

/// The system's allocator, which charges the running job's budget.
pub struct MeteredAllocator;

// SAFETY: every call is passed on to `System` unchanged; the bookkeeping neither allocates nor unwinds.
unsafe impl GlobalAlloc for MeteredAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as i64, 1);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        charge(layout.size() as i64, 1);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        charge(-(layout.size() as i64), -1);
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        charge(new_size as i64 - layout.size() as i64, 0);
        unsafe { System.realloc(pointer, layout, new_size) }
    }
}

fn charge(bytes: i64, allocations: i64) {
    let _ = BUDGET.try_with(|cell| {
        let mut budget = cell.get();
        if budget.slot.is_null() {
            return;
        }
        budget.bytes = budget.bytes.saturating_sub(bytes);
        budget.allocations -= allocations;
        cell.set(budget);
        if bytes < 0 {
            return;
        }
        // SAFETY: the slot outlives its thread, which holds an Arc of it.
        let slot = unsafe { &*budget.slot };
        if budget.bytes < 0 || budget.allocations < 0 || slot.expired.load(Ordering::Relaxed) {
            cell.set(NO_BUDGET);
            halt(slot);
        }
    });
}

/// Ends this thread's work without unwinding, which an allocator may not do.
fn halt(slot: &Slot) -> ! {
    let mut state = lock(&slot.state);
    if matches!(*state, State::Running) {
        *state = State::Failed(Failure::Memory);
    }
    slot.changed.notify_all();
    drop(state);
    loop {
        std::thread::sleep(Duration::from_secs(u64::MAX >> 1));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

static IDLE: Mutex<Vec<Arc<Slot>>> = Mutex::new(Vec::new());

/// Runs `job` on a thread of the pool; the caller waits.
pub fn run<T: Send + 'static>(limits: Limits, job: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    silence_panics();
    let slot = take_thread()?;
    {
        let job: Job = Box::new(move || Box::new(job()) as Box<dyn Any + Send>);
        *lock(&slot.state) = State::Waiting(job, limits);
        slot.changed.notify_all();
    }
    let outcome = wait(&slot, limits.time)?;
    give_back(slot);
    Ok(*outcome.downcast::<T>().expect("a job returns what it was made to return"))
}

fn wait(slot: &Arc<Slot>, time: Duration) -> Result<Box<dyn Any + Send>, Failure> {
    let deadline = Instant::now() + time;
    let mut state = lock(&slot.state);
    loop {
        match std::mem::replace(&mut *state, State::Idle) {
            State::Done(value) => return Ok(value),
            State::Failed(failure) => {
                if matches!(failure, Failure::Panic(_)) {
                    drop(state);
                    give_back(slot.clone());
                }
                return Err(failure);
            }
            unfinished => *state = unfinished,
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            *state = State::Closed;
            slot.expired.store(true, Ordering::Relaxed);
            return Err(Failure::Time);
        }
        state = match slot.changed.wait_timeout(state, left) {
            Ok((guard, _)) => guard,
            Err(poisoned) => poisoned.into_inner().0,
        };
    }
}

fn take_thread() -> Result<Arc<Slot>, Failure> {
    if let Some(slot) = lock(&IDLE).pop() {
        return Ok(slot);
    }
    let slot =
        Arc::new(Slot { state: Mutex::new(State::Idle), changed: Condvar::new(), expired: AtomicBool::new(false) });
    let own = slot.clone();
    std::thread::Builder::new()
        .name("template".into())
        .stack_size(STACK_BYTES)
        .spawn(move || serve(own))
        .map_err(|error| Failure::Unavailable(error.to_string()))?;
    Ok(slot)
}

fn give_back(slot: Arc<Slot>) {
    let mut idle = lock(&IDLE);
    if idle.len() < MAX_IDLE {
        idle.push(slot);
        return;
    }
    drop(idle);
    *lock(&slot.state) = State::Closed;
    slot.changed.notify_all();
}

/// A thread's life: jobs, one after another.
fn serve(slot: Arc<Slot>) {
    loop {
        let (job, limits) = {
            let mut state = lock(&slot.state);
            loop {
                match std::mem::replace(&mut *state, State::Running) {
                    State::Waiting(job, limits) => break (job, limits),
                    State::Closed => return,
                    other => *state = other,
                }
                state = slot.changed.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            }
        };
        let budget = Budget { bytes: limits.bytes, allocations: MAX_ALLOCATIONS, slot: Arc::as_ptr(&slot) };
        BUDGET.with(|cell| cell.set(budget));
        let outcome = catch_unwind(AssertUnwindSafe(job));
        BUDGET.with(|cell| cell.set(NO_BUDGET));
        let mut state = lock(&slot.state);
        if matches!(*state, State::Closed) {
            return;
        }
        *state = match outcome {
            Ok(value) => State::Done(value),
            Err(payload) => State::Failed(Failure::Panic(panic_text(payload.as_ref()))),
        };
        slot.changed.notify_all();
    }
}

pub fn panic_text(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<String>()
        .cloned()
        .or_else(|| payload.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_else(|| "panic".into())
}

/// Panics are caught and reported as errors; the default hook would print them, and take locks while the budget runs.
pub fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        std::panic::set_hook(Box::new(|_| {
            let _ = BUDGET.try_with(|cell| cell.set(NO_BUDGET));
        }));
    });
}
