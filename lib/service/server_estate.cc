// The objects of a server's clients, on their way to another daemon and from one.
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/dead_owner.h"
#include "service/bequeath_cm.h"
#include "service/estate_of_devices.h"
#include "service/estate_of_xrc.h"
#include "service/server_impl.h"
#include "transport/qp/send_slot.h"

namespace uroce::service {
namespace {

/// For a client's request that has begun. Engines have a timeout of their own.
constexpr std::chrono::seconds kRequestPatience{6};
constexpr std::chrono::seconds kLongestPatience{30};
constexpr std::chrono::milliseconds kStandstill{100};
/// For WRITEs under way, when no others begin in their form.
constexpr std::chrono::seconds kWritePatience{4};

// An engine that does not answer fails the pause that follows.
void run_on_all(const std::vector<std::shared_ptr<control::Device>>& devices, const control::EngineRunner::Work& work) {
  for (const auto& device : devices) {
    const auto lock = device->runner().lock();
    for (uint32_t engine = 0; engine < device->engines(); ++engine) (void)device->runner().run(engine, work);
  }
}

}  // namespace

// A request may need an engine, and this thread may be the one that polls it. Programs may end meanwhile.
bool Server::Impl::gate_holds_all() {
  auto now = std::chrono::steady_clock::now();
  auto until = now + kRequestPatience;
  const auto limit = now + kLongestPatience;
  while (!threads_gate.holds(serving())) {
    const auto before = std::exchange(now, std::chrono::steady_clock::now());
    if (now - before > kStandstill) until += now - before;  // the machine stood still, and so did the requests
    if (now > std::min(until, limit)) return false;
    if (all_devices.empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      all_devices.front()->runner().host().wait_step();
    }
  }
  return true;
}

// The successor's own thread does not come to the gate.
std::size_t Server::Impl::serving() const {
  const auto clients_now = all();
  const auto serves = [](const auto& client) { return !client->done() && !client->is_successor(); };
  return static_cast<std::size_t>(std::ranges::count_if(clients_now, serves));
}

void Server::Impl::write_numbers(const EstateVersions& versions) {
  numbers_written = Estate{.versions = versions};
  EstateWriter rows(numbers_written);
  bequeath_numbers(all_devices, rows);
}

void Server::Impl::keep_writes_whole(bool whole) {
  writes_are_whole = whole;
  run_on_all(all_devices, [whole](transport::Engine& engine) { engine.keep_writes_whole(whole); });
}

Result<void> Server::Impl::finish_onlies(const EstateVersions& versions) {
  if (versions.snapshot >= transport::kSnapshotWithOnlies) return {};
  keep_writes_whole(true);
  const auto limit = std::chrono::steady_clock::now() + kWritePatience;
  for (;;) {
    bool any = false;
    run_on_all(all_devices, [&any](transport::Engine& engine) { any |= engine.has_onlies(); });
    if (!any) return {};
    if (std::chrono::steady_clock::now() > limit) {
      return fail(ETIMEDOUT, fmt::format("RDMA WRITEs that began in a form which the successor's release does not know "
                                         "are not done within {} s; try again",
                                         kWritePatience.count()));
    }
    all_devices.front()->runner().host().wait_step();
  }
}

Result<void> Server::Impl::stand_still(const EstateVersions& versions) {
  threads_gate.close();
  Result<void> still;
  if (!gate_holds_all()) {
    still = fail(ETIMEDOUT, fmt::format("a request of one of {} clients is not done within {} s; try again", serving(),
                                        kRequestPatience.count()));
  }
  if (still) still = check_objects(versions);  // the engines still turn
  if (still) still = finish_onlies(versions);
  // A turn of the manager's may need an engine.
  if (still && connection_manager != nullptr) still = connection_manager->pause();
  if (still) write_numbers(versions);
  for (auto device = all_devices.begin(); still && device != all_devices.end(); ++device) {
    still = (*device)->runner().pause();
    if (still) continue;
    while (device != all_devices.begin()) (void)(*--device)->runner().resume();
  }
  if (still) return still;
  if (writes_are_whole) keep_writes_whole(false);
  numbers_written = Estate();
  if (connection_manager != nullptr) connection_manager->resume();
  threads_gate.open();
  return still;
}

void Server::Impl::move_on() {
  for (const auto& device : all_devices) {
    if (auto resumed = device->runner().resume(); !resumed) log(Severity::error, resumed.error().text);
  }
  if (writes_are_whole) keep_writes_whole(false);
  if (connection_manager != nullptr) connection_manager->resume();
  threads_gate.open();
  for (const auto& client : std::exchange(not_inherited, {})) client->disconnect();
  for (const auto& client : std::exchange(inherited, {})) {
    if (auto started = client->start(); !started) {
      log(Severity::error, started.error().text);
      client->disconnect();
    }
  }
}

std::size_t Server::Impl::outlive_threads() {
  free_of_dead_owner(mutex);
  free_of_dead_owner(log_mutex);
  std::size_t unknown = 0;
  for (const auto& device : all_devices) unknown += device->runner().outlive_threads();
  connections_lost = connection_manager != nullptr && !connection_manager->outlive_threads();
  for (const auto& client : all()) client->outlive_threads();
  write_numbers({});
  return unknown;
}

Result<void> Server::Impl::check(const EstateVersions& versions) const {
  for (const auto& client : all()) {
    const uint32_t protocol = client->protocol();
    if (client->done() || client->is_successor() || versions.protocol.contains(protocol)) continue;
    return fail(EPROTONOSUPPORT,
                fmt::format("client {} ({}, process {}) speaks protocol {}, and the successor {} to {}; end it, or "
                            "restart the ordinary way",
                            client->id(), client->peer().command, client->peer().pid, protocol,
                            versions.protocol.oldest, versions.protocol.newest));
  }
  return {};
}

Result<void> Server::Impl::check_objects(const EstateVersions& versions) const {
  for (const auto& client : all()) {
    if (client->done() || client->is_successor()) continue;
    const auto what = client->newer_than(versions.estate);
    if (!what) continue;
    return fail(
        EPROTONOSUPPORT,
        fmt::format("client {} ({}, process {}) has {}, which the successor cannot take over: it reads version "
                    "{} of the clients' estate, and this daemon has {}; end that program, or restart the "
                    "ordinary way: stop uroced, and start it",
                    client->id(), client->peer().command, client->peer().pid, *what, versions.estate, kEstateVersion));
  }
  return {};
}

Result<std::pair<Estate, Bequest>> Server::Impl::estate() {
  std::pair<Estate, Bequest> out;
  out.first = std::exchange(numbers_written, Estate());
  EstateWriter rows(out.first);
  bequeath_devices(*this, rows);
  if (connection_manager != nullptr && !connections_lost) service::bequeath(*connection_manager, rows);
  std::vector<ClientState*> gone_over;
  for (const auto& client : all()) {
    if (client->done() || client->is_successor()) continue;
    const auto before = rows.mark();
    const auto written = connections_lost && client->uses_connections()
                             ? fail(EOPNOTSUPP, "the daemon died while it changed connections")
                             : client->bequeath(rows);
    if (written) {
      out.second.queue_pairs += client->queue_pairs();
      std::ranges::copy(client->devices(), std::back_inserter(gone_over));
      continue;
    }
    rows.take_back(before);
    ++out.second.refused;
    log(Severity::warning, fmt::format("the restart will disconnect client {} ({}, process {}): {}", client->id(),
                                       client->peer().command, client->peer().pid, written.error().text));
  }
  if (auto written = bequeath_targets(gone_over, rows); !written) return std::unexpected(written.error());
  return out;
}

Result<Bequest> Server::Impl::inherit(Estate estate) {
  for (const auto& device : all_devices) {
    if (auto paused = device->runner().pause(); !paused) return std::unexpected(paused.error());
  }
  Bequest result;
  EstateReader rows(estate);
  if (auto numbers = inherit_devices(all_devices, rows, earlier); !numbers) {
    return std::unexpected(numbers.error());
  }
  if (auto connections = inherit_connections(rows); !connections) return std::unexpected(connections.error());
  const auto find = [this](uint32_t id) -> ClientState* {
    for (const auto& client : inherited) {
      for (ClientState* device : client->devices()) {
        if (device->id == id) return device;
      }
    }
    return nullptr;
  };
  while (!rows.at_end()) {
    const auto kind = rows.next();
    if (!kind) return std::unexpected(kind.error());
    if (*kind == Row::xrc_target) {
      if (auto made = inherit_target(rows, find); !made) return std::unexpected(made.error());
      continue;
    }
    auto program = rows.take<ProgramRow>();
    if (!program) return std::unexpected(program.error());
    auto socket = rows.take_fd(program->socket);
    if (!socket) return std::unexpected(socket.error());
    auto client = client_of(std::move(*socket), program->id);
    const auto made = client->inherit(*program, rows);
    if (made) {
      add_inherited(std::move(client), program->id);
      continue;
    }
    ++result.refused;
    log(Severity::warning, fmt::format("the restart disconnects client {} ({}, process {}): {}", program->id,
                                       client->peer().command, client->peer().pid, made.error().text));
    client->abandon();
    not_inherited.push_back(std::move(client));
    if (auto skipped = rows.skip_to({Row::program, Row::xrc_target}); !skipped) return std::unexpected(skipped.error());
  }
  for (const auto& client : inherited) result.queue_pairs += client->queue_pairs();
  return result;
}

Result<void> Server::Impl::inherit_connections(EstateReader& rows) {
  if (connection_manager == nullptr) return {};
  if (auto paused = connection_manager->pause(); !paused) return paused;
  Result<void> refused;
  auto read = service::inherit(*connection_manager, rows, refused);
  if (!refused) log(Severity::warning, fmt::format("the restart ends connections: {}", refused.error().text));
  return read;
}

void Server::Impl::give_up() {
  not_inherited.clear();
  for (const auto& client : std::exchange(inherited, {})) client->abandon();
  const std::scoped_lock lock(mutex);
  clients.clear();
}

std::shared_ptr<Client> Server::Impl::client_of(message::Fd socket, uint32_t id) {
  Peer peer = Peer::of(socket.get(), own_rights);
  peer.charged_to = users->payer_of(peer, subordinates);
  auto user = users->of(peer);
  return std::make_shared<Client>(*this, message::Connection(std::move(socket)), id, std::move(peer), std::move(user));
}

void Server::Impl::add_inherited(std::shared_ptr<Client> client, uint32_t id) {
  const std::scoped_lock lock(mutex);
  next_id = std::max(next_id, client->last_id() + 1);
  inherited.push_back(client);
  clients.emplace(id, std::move(client));
}

}  // namespace uroce::service
