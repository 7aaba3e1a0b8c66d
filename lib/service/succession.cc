// A server whose clients go to another daemon, and one that gets them.
#include <cerrno>

#include <fmt/format.h>

#include "service/client.h"
#include "service/server_impl.h"

namespace uroce::service {

Result<void> Server::hold(std::chrono::milliseconds patience) {
  impl_->threads_gate.close();
  const auto clients = impl_->all();
  const auto serving = std::ranges::count_if(clients, [](const auto& client) { return !client->done(); });
  Result<void> held;
  if (!impl_->threads_gate.holds(static_cast<std::size_t>(serving), patience)) {
    held = fail(ETIMEDOUT, fmt::format("not all of {} clients' requests were done within {} ms; try again", serving,
                                       patience.count()));
  }
  for (auto device = impl_->all_devices.begin(); held && device != impl_->all_devices.end(); ++device) {
    held = (*device)->runner().pause();
    if (held) continue;
    while (device != impl_->all_devices.begin()) (void)(*--device)->runner().resume();
  }
  if (!held) impl_->threads_gate.open();
  return held;
}

Result<Estate> Server::estate() const {
  Estate estate;
  EstateWriter out(estate);
  const std::scoped_lock lock(impl_->mutex);
  impl_->left_out.clear();
  for (const auto& [id, client] : impl_->clients) {
    const auto before = out.mark();
    const auto written = client->bequeath(out);
    if (written) continue;
    out.take_back(before);
    impl_->left_out.insert(id);
    impl_->log(Severity::warning, fmt::format("client {} ({}, process {}) will be disconnected by the restart: {}", id,
                                              client->peer().command, client->peer().pid, written.error().text));
  }
  return estate;
}

void Server::go_on() {
  for (const auto& device : impl_->all_devices) {
    if (auto resumed = device->runner().resume(); !resumed) impl_->log(Severity::error, resumed.error().text);
  }
  impl_->threads_gate.open();
  for (const auto& client : std::exchange(impl_->not_inherited, {})) client->disconnect();
  for (const auto& client : std::exchange(impl_->inherited, {})) {
    if (auto started = client->start(); !started) {
      impl_->log(Severity::error, started.error().text);
      client->disconnect();
    }
  }
}

void Server::give_up() {
  impl_->not_inherited.clear();
  for (const auto& client : std::exchange(impl_->inherited, {})) client->abandon();
  const std::scoped_lock lock(impl_->mutex);
  impl_->clients.clear();
}

void Server::leave() {
  if (impl_->stopping.exchange(true)) return;
  FaultWatch::set_bell(-1);
  impl_->ring();
  impl_->thread.join();
  const auto clients = impl_->all();
  {
    const std::scoped_lock lock(impl_->mutex);
    for (const uint32_t id : impl_->left_out) {
      if (const auto found = impl_->clients.find(id); found != impl_->clients.end()) found->second->disconnect();
    }
  }
  impl_->threads_gate.leave();
  for (const auto& client : clients) client->join();
  const std::scoped_lock lock(impl_->mutex);
  impl_->clients.clear();
}

Result<Server::Inherited> Server::inherit(Estate estate) {
  for (const auto& device : impl_->all_devices) {
    if (auto paused = device->runner().pause(); !paused) return std::unexpected(paused.error());
  }
  Inherited result;
  EstateReader rows(estate);
  while (!rows.at_end()) {
    auto program = rows.take<ProgramRow>();
    if (!program) return std::unexpected(program.error());
    auto socket = rows.take_fd(program->socket);
    if (!socket) return std::unexpected(socket.error());
    auto client = impl_->client_of(std::move(*socket), program->id);
    const auto made = client->inherit(*program, rows);
    if (made) {
      ++result.clients;
      result.queue_pairs += client->queue_pairs();
      impl_->add_inherited(std::move(client), program->id);
      continue;
    }
    ++result.refused;
    impl_->log(Severity::warning,
               fmt::format("client {} ({}, process {}) is disconnected by the restart: {}", program->id,
                           client->peer().command, client->peer().pid, made.error().text));
    client->abandon();
    impl_->not_inherited.push_back(std::move(client));
    while (!rows.at_end()) {
      const auto kind = rows.next();
      if (!kind) return std::unexpected(kind.error());
      if (*kind == Row::program) break;
      if (auto skipped = rows.skip(); !skipped) return std::unexpected(skipped.error());
    }
  }
  return result;
}

}  // namespace uroce::service
