// The daemon's lists of clients, users and objects, as many rows as one reply takes.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "message/operator_messages.h"
#include "service/client.h"
#include "service/sight.h"
#include "service/user.h"

namespace uroce::service {

using Clients = std::vector<std::shared_ptr<Client>>;

/// A row for each opened device, and for each program without one, in the order of their ids.
std::vector<message::ClientRow> all_rows(const Clients& clients);

// Without what `sight` does not allow. A reply with `more` has not all rows: ask again, after its last one.
message::ClientRows client_rows(const Clients& clients, uint32_t after, const Sight& sight);
message::UserRows user_rows(const Users& users, uint64_t after, const Sight& sight);
message::ObjectRows object_rows(const Clients& clients, const message::ListObjects& request, const Sight& sight);

}  // namespace uroce::service
