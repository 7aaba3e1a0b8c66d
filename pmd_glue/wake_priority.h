// How soon the scheduler gives a napping thread its core back.
#pragma once

namespace uroce::glue {

/// Asks that the calling thread, which naps often and works briefly, gets its core soon after it wakes, also from
/// programs that spin on it. It fails silently where the kernel or the user's rights do not allow that.
void prefer_when_woken();

}  // namespace uroce::glue
