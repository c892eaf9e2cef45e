//! The allocator of the program.
//!
//! Over HTTP one thread frees all the time what another one has allocated, and the allocators of C libraries let
//! threads wait for each other then. So small pieces are those of `mimalloc`. A large one is most often a long message,
//! which grows as it is read: the system's allocator lets it grow in place, and soon gives back what it was in.
#![expect(unsafe_code, reason = "an allocator is, by what it promises")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr;

use libmimalloc_sys::{
    mi_free, mi_malloc, mi_malloc_aligned, mi_realloc, mi_realloc_aligned, mi_zalloc,
    mi_zalloc_aligned,
};

/// A piece of more bytes than this is the system's.
const SMALL: usize = 64 * 1024;
/// The alignment in bytes of every piece of `mimalloc` that has at least as many (its `MI_MAX_ALIGN_SIZE`).
const NATURAL: usize = 16;

/// Allocates by the size of what is wanted; for `#[global_allocator]`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

fn is_small(layout: Layout) -> bool {
    layout.size() <= SMALL
}

/// Returns `true` if a piece is aligned as it has to be wherever `mimalloc` takes it from: each of at least as many
/// bytes is. To ask for an alignment takes twice as many instructions.
fn is_aligned_anyway(layout: Layout) -> bool {
    layout.align() <= NATURAL && layout.align() <= layout.size()
}

// SAFETY: each piece is handed on to one of two allocators that keep this promise. Its size decides which, and whoever
// gives a piece back or changes its size says the size that it was allocated with.
unsafe impl GlobalAlloc for Allocator {
    // What allocates does so at thousands of places, each of which would have a copy of the choice.
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the promises are the caller's.
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
        // SAFETY: the promises are the caller's.
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
        // SAFETY: the promises are the caller's.
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
        // SAFETY: the promises are the caller's, also that `size` is one of a layout. Where the piece moves from one
        // allocator to the other, both pieces have as many bytes as are copied, and the new one is nobody else's.
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
    fn a_piece_keeps_its_bytes_whichever_sizes_it_is_given() {
        let text: Vec<u8> = (0..=250).cycle().take(2 * SMALL).collect();
        for align in [1, 8, 4096] {
            let mut layout = Layout::from_size_align(text.len(), align).unwrap();
            // SAFETY: each piece is used within its size and given back once, with the size that it has.
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
    fn what_is_wanted_empty_is_empty() {
        for size in [1, SMALL, SMALL + 1, 3_000_000] {
            let layout = Layout::from_size_align(size, 16).unwrap();
            // SAFETY: the piece is read within its size, and given back once.
            unsafe {
                let piece = Allocator.alloc_zeroed(layout);
                assert!(std::slice::from_raw_parts(piece, size).iter().all(|byte| *byte == 0));
                Allocator.dealloc(piece, layout);
            }
        }
    }
}
