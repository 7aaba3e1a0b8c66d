// Pages for memory that is registered.
#pragma once

#include <cstddef>

namespace uroce::client {

/// Gives pages to the parts of [address, address + length) that have none, as pinning does for a kernel's device. So
/// they are charged to this process; the daemon leaves holes as they are, and limits them. `writable`: as the
/// registration. Where it fails, the memory stays as it is. Any thread.
void give_pages(const void* address, std::size_t length, bool writable);

}  // namespace uroce::client
