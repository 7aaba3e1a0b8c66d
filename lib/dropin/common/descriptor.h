// Event descriptors whose flags are the application's to set.
#pragma once

namespace uroce::dropin {

/// A descriptor of ours that is readable while `fd` is: whether the application made it non-blocking can be told from
/// it, and reading it by mistake takes no event. -1 with errno on failure.
int outer_descriptor(int fd);

/// Whether O_NONBLOCK is set on it.
bool non_blocking(int fd);

}  // namespace uroce::dropin
