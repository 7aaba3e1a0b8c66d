// The access flags that uroce knows. Applications can pass any bits.
#pragma once

#include <uroce/types.h>

namespace uroce {

inline constexpr AccessFlags kKnownAccess = Access::local_write | Access::remote_write | Access::remote_read |
                                            Access::remote_atomic | Access::mw_bind | Access::zero_based |
                                            Access::relaxed_ordering | Access::remote_invalidate |
                                            Access::flush_global | Access::flush_persistent;

}  // namespace uroce
