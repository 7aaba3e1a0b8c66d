// The XDP program that an interface has already, perhaps left behind by a process that was killed.
#pragma once

#include <cstdint>
#include <string>

#include <uroce/error.h>

namespace uroce::glue::xdp {

/// The kernel's id of the XDP program that is attached to an interface; 0 for none. Errors: the system's.
Result<uint32_t> attached_program(const std::string& interface);

/// Detaches program `id` from an interface if it is ours (by its name) and has no socket: the process that attached it
/// was killed. Needs CAP_SYS_ADMIN. False when the program stays.
bool remove_stale_program(const std::string& interface, uint32_t id);

}  // namespace uroce::glue::xdp
