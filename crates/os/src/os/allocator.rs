//! The global allocator: `mimalloc` for small blocks, the system allocator for large ones.
//!
//! Over HTTP, one thread often frees memory that another thread allocated. C library allocators
//! take a contended lock for that; `mimalloc` doesn't. Large blocks are mostly message buffers that
//! grow while a message is read. The system allocator can grow them in place and returns their
//! memory soon after they are freed.
#![expect(unsafe_code, reason = "`GlobalAlloc` is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// The largest block, in bytes, that `mimalloc` allocates.
const SMALL: usize = 64 * 1024;
/// `mimalloc` aligns every block of at least this many bytes to this many bytes
/// (`MI_MAX_ALIGN_SIZE`).
const NATURAL: usize = 16;

/// An allocator for `#[global_allocator]` that picks the backend by block size.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

fn is_small(layout: Layout) -> bool {
    layout.size() <= SMALL
}

/// Returns `true` if plain `mi_malloc` satisfies the alignment. `mi_malloc_aligned` takes twice as
/// many instructions.
fn is_aligned_anyway(layout: Layout) -> bool {
    layout.align() <= NATURAL && layout.align() <= layout.size()
}

// SAFETY: every block comes from one of two allocators that uphold the contract. The block's size
// selects the allocator, and callers pass the size of the allocation when they free or resize a
// block.
unsafe impl GlobalAlloc for Allocator {
    // Not inlined: the branch would be duplicated at every allocation site.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe {
            if !is_small(layout) {
                System.alloc(layout)
            } else if is_aligned_anyway(layout) {
                mi_malloc(layout.size()).cast()
            } else {
                mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe {
            if !is_small(layout) {
                System.alloc_zeroed(layout)
            } else if is_aligned_anyway(layout) {
                mi_zalloc(layout.size()).cast()
            } else {
                mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`.
        unsafe {
            if is_small(layout) {
                mi_free(piece.cast());
            } else {
                System.dealloc(piece, layout);
            }
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, piece: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller upholds the contract of `GlobalAlloc`, so `size` is valid for a
        // layout. When a block moves between the allocators, the new block doesn't overlap the old
        // one, and both are at least as long as the copy.
        unsafe {
            let wanted = Layout::from_size_align_unchecked(size, layout.align());
            match (is_small(layout), is_small(wanted)) {
                (true, true) if is_aligned_anyway(wanted) => mi_realloc(piece.cast(), size).cast(),
                (true, true) => mi_realloc_aligned(piece.cast(), size, layout.align()).cast(),
                (false, false) => System.realloc(piece, layout, size),
                _ => {
                    let moved = self.alloc(wanted);
                    if !moved.is_null() {
                        ptr::copy_nonoverlapping(piece, moved, layout.size().min(size));
                        self.dealloc(piece, layout);
                    }
                    moved
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn realloc_preserves_bytes_across_size_classes() {
        let text: Vec<u8> = (0..=250).cycle().take(2 * SMALL).collect();
        for align in [1, 8, 4096] {
            let mut layout = Layout::from_size_align(text.len(), align).unwrap();
            // SAFETY: each block is accessed within its size and freed once, with its current
            // layout.
            unsafe {
                let (mut piece, mut kept) = (Allocator.alloc(layout), text.len());
                ptr::copy_nonoverlapping(text.as_ptr(), piece, text.len());
                for size in [40 * SMALL, SMALL, SMALL + 1, 9 * SMALL, SMALL, 300, 2 * SMALL, 7] {
                    piece = Allocator.realloc(piece, layout, size);
                    assert!(!piece.is_null());
                    layout = Layout::from_size_align(size, align).unwrap();
                    assert_eq!(piece.addr() % align, 0);
                    kept = kept.min(size);
                    assert_eq!(std::slice::from_raw_parts(piece, kept), &text[..kept]);
                }
                Allocator.dealloc(piece, layout);
            }
        }
    }

    #[test]
    fn alloc_zeroed_returns_zeroed_memory() {
        for size in [1, SMALL, SMALL + 1, 3_000_000] {
            let layout = Layout::from_size_align(size, 16).unwrap();
            // SAFETY: the block is read within its size and freed once.
            unsafe {
                let piece = Allocator.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(piece, size).iter().all(|byte| *byte == 0));
                Allocator.dealloc(piece, layout);
            }
        }
    }
}
