// Asks the kernel about its part of what `uroce doctor` judges.
#pragma once

#include <vector>

#include "uroce/doctor.h"

namespace uroce::cli {

/// The neighbours of an interface that the kernel has looked for in vain (NUD_FAILED).
std::vector<Gid> failed_neighbours(unsigned interface);
/// Whether a socket of the calling thread's network namespace has UDP port 4791 of all addresses.
bool roce_port_is_taken();
/// Rights, rxe, and io_uring.
void read_kernel_facts(Facts& facts);

}  // namespace uroce::cli
