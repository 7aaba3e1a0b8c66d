// Event descriptors whose flags the application sets.
#pragma once

namespace uroce::dropin {

/// An epoll descriptor that is readable while `fd` is. Its O_NONBLOCK is the application's, and reading it by mistake
/// takes no event. -1 with errno on failure.
int outer_descriptor(int fd);

/// From now on outer_descriptor(`fd`), which is `outer`, is never readable. Again: it does nothing.
void quiet(int outer, int fd);

/// Whether O_NONBLOCK is set on it. False for one that another thread has closed.
bool non_blocking(int fd);

}  // namespace uroce::dropin
