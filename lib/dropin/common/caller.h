// The library that has made a call of the drop-in libraries, and whether it only tried out what a device has.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace uroce::dropin {

/// UCX, libfabric and Open MPI look for a device's limits and features by creating objects that it may refuse. A
/// refusal with EINVAL, EOPNOTSUPP or ENOSYS is the answer that they expect; others, such as ENOMEM, stop them.
bool is_expected_by(std::string_view library, int code);

/// The file name of the object that has called into libibverbs or librdmacm. nullopt where no stack can be read. It
/// walks the stack, for reports that were asked for. May allocate. Any thread.
std::optional<std::string> calling_object();
/// The same caller's place, as "prog+0x11a4 (main)": addr2line takes the number.
std::string calling_place();

}  // namespace uroce::dropin
