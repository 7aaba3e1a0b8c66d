// Serving XRC: domains, shared receive queues and target queue pairs.
#pragma once

#include "message/xrc_messages.h"
#include "service/operation.h"

namespace uroce::service {

struct HeldFile {
  control::XrcFile file{};
  std::shared_ptr<message::Fd> fd{};  ///< keeps the inode's number from being used again
};
/// A domain's file, whose descriptor is copied. Errors: EBADF, EOPNOTSUPP, EMFILE.
Result<HeldFile> hold_file(const message::Fd& fd);

Result<Reply> open_xrc_domain(ClientState& client, const message::OpenXrcDomain& request, Call& call);
Result<Reply> create_xrc_srq(ClientState& client, const message::CreateXrcSrq& request);
Result<Reply> create_xrc_target(ClientState& client, const message::CreateXrcTarget& request);
Result<Reply> open_xrc_target(ClientState& client, const message::OpenXrcTarget& request);

}  // namespace uroce::service
