#include "service/estate_versions.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "message/protocol.h"
#include "queues/layout.h"
#include "service/estate_rows.h"
#include "transport/qp/snapshot.h"

namespace uroce::service {
namespace {

using message::VersionRange;

std::string shown(const VersionRange& range) {
  return range.oldest == range.newest ? fmt::format("{}", range.newest)
                                      : fmt::format("{} to {}", range.oldest, range.newest);
}

/// The newest version that both have.
Result<uint32_t> common(const char* what, const VersionRange& own, const VersionRange& successors) {
  const uint32_t newest = std::min(own.newest, successors.newest);
  if (own.contains(newest) && successors.contains(newest)) return newest;
  return fail(EPROTONOSUPPORT,
              fmt::format("the running daemon has version {} of {}, and its successor {}: they have none in common; go "
                          "by a release between them, or restart the ordinary way: stop uroced, and start it",
                          shown(own), what, shown(successors)));
}

}  // namespace

message::SuccessorVersions own_versions() {
  return {.estate = {kOldestEstateVersion, kEstateVersion},
          .snapshot = {transport::kOldestSnapshotVersion, transport::kSnapshotVersion},
          .protocol = {message::kOldestProtocol, message::kProtocol},
          .queue_abi = {queues::kOldestAbiVersion, queues::kAbiVersion}};
}

Result<EstateVersions> common_versions(const message::SuccessorVersions& own,
                                       const message::SuccessorVersions& successors) {
  const auto estate = common("the clients' estate", own.estate, successors.estate);
  if (!estate) return std::unexpected(estate.error());
  const auto snapshot = common("queue pairs' snapshots", own.snapshot, successors.snapshot);
  if (!snapshot) return std::unexpected(snapshot.error());
  const auto protocol = common("the clients' protocol", own.protocol, successors.protocol);
  if (!protocol) return std::unexpected(protocol.error());
  // Clients have their queues in the newest layout.
  static_assert(queues::kOldestAbiVersion == queues::kAbiVersion, "a client row needs the layout of its queues");
  const auto queue_abi = common("the clients' queues", own.queue_abi, successors.queue_abi);
  if (!queue_abi) return std::unexpected(queue_abi.error());
  return EstateVersions{.estate = *estate, .snapshot = *snapshot, .protocol = successors.protocol};
}

}  // namespace uroce::service
