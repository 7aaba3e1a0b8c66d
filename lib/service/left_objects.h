// The objects that a program has not destroyed when it ends. The kernel would destroy them, and so does the daemon. A
// test of the program may call them a leak.
#pragma once

#include <string>
#include <vector>

#include "service/client_state.h"
#include "service/history.h"

namespace uroce::service {

/// Adds up the objects on all devices of one program. The program's thread.
History::Objects left_objects_of(const std::vector<ClientState*>& devices);

/// "2 queue pairs, 1 memory region"
std::string text_of(const History::Objects& objects);

}  // namespace uroce::service
