// An engine's state in a recording.
#include <cerrno>

#include <fmt/format.h>

#include "transport/core/snapshot_archive.h"
#include "transport/engine/engine.h"
#include "transport/qp/snapshot.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kMostGids = 4096;

Result<void> check(const SnapshotReader& archive, std::string_view what) {
  if (archive.good() && archive.left() == 0) return {};
  return fail(EINVAL,
              fmt::format("cannot read an engine's image: {} {}", what,
                          archive.good() ? fmt::format("has {} bytes too many", archive.left()) : archive.error()));
}

}  // namespace

template <class Archive>
void Engine::persist_clients(Archive& archive) {
  int64_t now = ctx_.now.count();
  archive("now", now, 0, INT64_MAX);
  ctx_.now = Nanos(now);
  auto gids = static_cast<uint32_t>(gids_.size());
  archive("gids", gids, 0, kMostGids);
  gids_.resize(gids);
  for (Gid& gid : gids_) archive("gid", gid.bytes);
  archive("whole_writes", ctx_.whole_writes);
  archive("epochs", ctx_.epochs);
  archive("owners", owners_);
}

template <class Archive>
void Engine::persist_queues(Archive& archive) {
  const auto find = [this](uint32_t qpn) { return table_.find(qpn); };
  archive.group("run_queue",
                [&] { dispatcher_.run_queue().persist(archive, owners_.clients(), owners_.users(), find); });
  archive.group("flush_queue",
                [&] { dispatcher_.flush_queue().persist(archive, owners_.clients(), owners_.users(), find); });
  archive.group("timers", [&] { dispatcher_.timers().persist(archive, find); });
}

Engine::Image Engine::image() {
  // Predictions change nothing that others see.
  ctx_.forget_headers();
  Image image;
  SnapshotWriter clients(image.clients, ctx_.now, kSnapshotVersion);
  persist_clients(clients);
  SnapshotWriter queues(image.queues, ctx_.now, kSnapshotVersion);
  persist_queues(queues);
  return image;
}

std::vector<std::byte> Engine::image(Qp& qp) {
  std::vector<std::byte> image(sizeof(uint32_t));
  store_le32(image.data(), qp.tx.owner);
  const auto state = write_qp_image(ctx_, qp);
  image.insert(image.end(), state.begin(), state.end());
  return image;
}

Result<void> Engine::restore_clients(std::span<const std::byte> image) {
  SnapshotReader archive(image, ctx_.now, kSnapshotVersion);
  persist_clients(archive);
  for (std::size_t i = 0; i < owners_.clients(); ++i) traffic_.add(static_cast<uint16_t>(i));
  return check(archive, "clients");
}

Result<void> Engine::restore(Qp& qp, std::span<const std::byte> image) {
  const uint32_t owner = image.size() < sizeof owner ? 0 : load_le32(image.data());
  if (image.size() < sizeof owner || owner >= owners_.clients() || !table_.add(qp)) {
    return fail(EINVAL, fmt::format("cannot read the image of QP {:#x}: its number or its client {} is not this "
                                    "engine's",
                                    qp.qpn, owner));
  }
  qp.tx.owner = static_cast<uint16_t>(owner);
  qp.cold->user = owners_.client(qp.tx.owner).user;
  auto restored = read_qp_image(ctx_, qp, image.subspan(sizeof owner));
  if (restored) routes_.share(qp);
  return restored;
}

Result<void> Engine::restore_queues(std::span<const std::byte> image) {
  SnapshotReader archive(image, ctx_.now, kSnapshotVersion);
  persist_queues(archive);
  return check(archive, "queues");
}

}  // namespace uroce::transport
