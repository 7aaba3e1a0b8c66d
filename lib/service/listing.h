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

/// Each opened device, and each program without one, in the order of their ids.
using Listed = std::vector<const ClientState*>;
/// Valid as long as the clients exist.
Listed listed(const Clients& clients);

/// A row for each of them.
std::vector<message::ClientRow> all_rows(const Listed& clients);

// Without what `sight` does not allow. A reply with `more` has not all rows: ask again, after its last one.
message::ClientRows client_rows(const Listed& clients, uint32_t after, const Sight& sight);
message::UserRows user_rows(const Users& users, uint64_t after, const Sight& sight);
message::ObjectRows object_rows(const Listed& clients, const message::ListObjects& request, const Sight& sight);

}  // namespace uroce::service
