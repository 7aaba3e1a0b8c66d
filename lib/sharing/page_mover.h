// Puts other pages in the place of pages that threads use at that moment, and loses no store.
#pragma once

#include <cstddef>
#include <span>

#include <uroce/error.h>

#include "sharing/page_replacement.h"

namespace uroce::sharing {

/// Replaces run after run, `page` being the page size of them all. The caller sleeps meanwhile with its signals
/// blocked, and the work is done on threads whose stacks are mapped for it: the caller's stack, and the heap, may be
/// among the runs. Error: EPERM, ENOMEM, what else keeps the work from starting.
Result<Moved> replace_pages(std::span<const Replacement> runs, PageKind kind, std::size_t page);

}  // namespace uroce::sharing
