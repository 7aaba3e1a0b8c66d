// Replaces pages while threads use them, without losing a store.
#pragma once

#include <cstddef>
#include <span>

#include <uroce/error.h>

#include "sharing/page_replacement.h"

namespace uroce::sharing {

/// Replaces run after run, all with pages of `page` bytes. Two threads with stacks of their own do the work while the
/// caller sleeps with its signals blocked, so the runs may include the caller's stack and the heap. Errors: EPERM,
/// ENOMEM, and others that keep the work from starting.
Result<Moved> replace_pages(std::span<const Replacement> runs, PageKind kind, std::size_t page);

}  // namespace uroce::sharing
