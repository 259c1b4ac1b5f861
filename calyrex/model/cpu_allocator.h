// Memory of CPU tensors.
#pragma once

namespace calyrex::model {

/// Makes libtorch take CPU memory from a cache of freed blocks in size classes. Ragged batches give every
/// step other sizes: the C library's heap then grows by fragmentation (15 MB a training step, seen), and
/// returning large blocks to the system costs a page fault for every 4 KiB of the next ones. Idempotent;
/// thread-safe.
void install_caching_cpu_allocator();

/// Gives freed memory back to the system: blocks that the cache keeps, and what the C library keeps of small
/// ones. For the end of work whose sizes will not come again, such as a training run's. Thread-safe.
void release_unused_memory();

}  // namespace calyrex::model
