// Lists of the daemon that come in several replies.
#pragma once

#include <algorithm>
#include <iterator>

#include "client/daemon_link.h"

namespace uroce::client {

/// All rows of a list. `go_on` makes the request ask for those after a row. Errors: those of the call.
template <class Reply, class Request>
auto fetch_rows(DaemonLink& link, message::Op op, Request request, auto go_on) -> Result<decltype(Reply::rows)> {
  decltype(Reply::rows) rows;
  for (bool more = true; more;) {
    auto reply = link.call<Reply>(op, request);
    if (!reply) return std::unexpected(reply.error());
    more = reply->more && !reply->rows.empty();
    if (more) go_on(request, reply->rows.back());
    std::ranges::move(reply->rows, std::back_inserter(rows));
  }
  return rows;
}

}  // namespace uroce::client
