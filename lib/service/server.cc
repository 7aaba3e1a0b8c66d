#include "service/server.h"

#include <algorithm>
#include <cerrno>

#include <malloc.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fmt/format.h>

#include "service/capacity.h"
#include "service/device_operations.h"
#include "service/fault_watch.h"
#include "service/listener.h"
#include "service/server_impl.h"

namespace uroce::service {
namespace {

constexpr int kHousekeepingMs = 200;
/// The same where there is no client.
constexpr int kIdleMs = 1000;
constexpr std::chrono::seconds kMemoryLook{1};
/// Connections beyond a limit that get an error in reply; more are closed at once.
constexpr std::size_t kRefusedWithReply = 16;

}  // namespace

void Server::Impl::begin() {
  begun = true;
  thread = std::thread([this] { run(); });
}

void Server::Impl::run() {
  while (!stopping.load(std::memory_order_acquire)) {
    held.store(holding.load(std::memory_order_acquire), std::memory_order_release);
    pollfd waiting[2] = {
        {.fd = held.load(std::memory_order_relaxed) ? -1 : listener.get(), .events = POLLIN, .revents = 0},
        {.fd = wake.get(), .events = POLLIN, .revents = 0}};
    poll(waiting, 2, all().empty() ? kIdleMs : kHousekeepingMs);
    uint64_t count = 0;
    [[maybe_unused]] const auto got = read(wake.get(), &count, sizeof count);
    if ((waiting[0].revents & POLLIN) != 0 && !stopping.load(std::memory_order_acquire)) accept_one();
    look_at_links();
    reap();
    log_what_was_left_out();
    look_at_memory();
    release_late();
    if (const auto line = guess_watch.look(all_devices, connection_manager, std::chrono::steady_clock::now())) {
      log(Severity::warning, *line);
    }
    if (const uint64_t now = FaultWatch::breaks(); now != breaks) {
      breaks = now;
      settle_waits();
      for (const auto& client : all()) client->retire_broken();
    }
  }
}

// Somebody may have written another limit, or moved the process to another group.
void Server::Impl::look_at_memory() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look) return;
  next_look = now + kMemoryLook;
  const uint64_t allowed = memory_room().memory();
  if (allowed == memory) return;
  if (const auto line = memory_room().about(); !line.empty()) log(Severity::info, line);
  memory = allowed;
  users->set_memory(allowed);
}

void Server::Impl::release_late() {
  for (const auto& device : all_devices) {
    const std::size_t left = device->release_late();
    std::size_t& told = late[device.get()];
    if (left != 0 && told == 0) {
      log(Severity::warning,
          fmt::format("{}: {} objects of programs that have gone stay, because an engine does not answer; they are "
                      "released when it does; check that the lcore that polls it runs",
                      device->config().name, left));
    }
    if (left == 0 && told != 0) {
      log(Severity::info,
          fmt::format("{}: its engines answer again; what programs left is released", device->config().name));
    }
    told = left;
  }
}

void Server::Impl::log_what_was_left_out() {
  for (const auto& [limit, severity] :
       {std::pair(&log_limit, Severity::warning), {&debug_log_limit, Severity::debug}}) {
    std::vector<LogLimit::Summary> due;
    {
      const std::scoped_lock lock(log_mutex);
      due = limit->due(std::chrono::steady_clock::now());
    }
    for (const LogLimit::Summary& one : due) {
      log(severity, fmt::format("{} more lines about clients of user {} were left out", one.lines, one.uid));
    }
  }
}

// Engines may be waiting for more of the same memory already, so first of all take it away.
void Server::Impl::settle_waits() const {
  const auto clients_now = all();
  for (const auto& guilty : clients_now) {
    const WaitAccount::Verdict verdict = guilty->settle_waits();
    if (verdict == WaitAccount::Verdict::allowed) continue;
    for (const auto& client : clients_now) {
      if (client->uid() != guilty->uid() || client->privileged()) continue;
      if (WaitAccount::disconnects(verdict, client->peer().pid == guilty->peer().pid)) client->cut_off();
    }
  }
}

void Server::Impl::accept_one() {
  message::Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!fd) {
    if (errno == EMFILE || errno == ENFILE) {
      log(Severity::error, "cannot accept a client: no file descriptor is left; raise the limit (LimitNOFILE)");
      std::this_thread::sleep_for(std::chrono::milliseconds(kHousekeepingMs));
    }
    return;
  }
  Peer peer = Peer::of(fd.get(), own_rights);
  peer.charged_to = users->payer_of(peer, subordinates);
  const std::scoped_lock lock(mutex);
  const auto refused = std::ranges::count_if(clients, [](const auto& entry) { return entry.second->refused(); });
  const std::size_t served = clients.size() - static_cast<std::size_t>(refused);
  const uint32_t id = next_id++;
  auto user = users->of(peer);
  auto client =
      std::make_shared<Client>(*this, message::Connection(std::move(fd)), id, std::move(peer), std::move(user));
  auto admitted = served < config.max_clients ? client->admit() : too_many();
  if (!admitted) {
    // Some get an error in reply; a flood of connections is closed without one.
    if (static_cast<std::size_t>(refused) >= kRefusedWithReply) return;
    client->refuse(admitted.error());
  }
  if (auto started = client->start(); !started) {
    return log_of_client(client->uid(), Severity::error, started.error().text);
  }
  clients.emplace(id, std::move(client));
}

Result<void> Server::Impl::too_many() const {
  return fail(ENOMEM,
              fmt::format("the daemon serves {} connections, which is its limit (max_clients); close one or raise it",
                          config.max_clients));
}

void Server::Impl::reap() {
  Clients gone = all();
  std::erase_if(gone, [](const auto& client) { return !client->done(); });
  log_ends();  // while their clients are known
  if (gone.empty()) return;
  {
    const std::scoped_lock lock(mutex);
    for (const auto& client : gone) clients.erase(client->id());
  }
  for (const auto& client : gone) client->end();
  gone.clear();
  // Without this the C library keeps the memory of freed queue pairs: 70 MB after 10,000.
  malloc_trim(0);
}

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<Server>> Server::start(ServerConfig config,
                                              std::vector<std::shared_ptr<control::Device>> devices, Log log,
                                              cm::Manager* connections, PortAccess ports) {
  if (!config.owner) {
    auto owner = message::SocketOwner::take(config.socket);
    if (!owner) return std::unexpected(owner.error());
    config.owner = std::make_shared<message::SocketOwner>(std::move(*owner));
  }
  const std::shared_ptr<message::Belongings> inherited = config.inherited;
  auto listener =
      inherited ? inherit_listener(*inherited, *config.owner) : listen_at(*config.owner, config.mode, config.group);
  if (!listener) return std::unexpected(listener.error());
  DaemonRights rights = DaemonRights::of_this_process();
  if (!FaultWatch::can_guard()) {
    log(Severity::warning,
        "userfaultfd is not permitted here: a user who punches holes in registered memory makes engines wait, and is "
        "not stopped; allow the system call in the container's filter");
  }
  if (config.before_serving) {
    if (auto ready = config.before_serving(); !ready) {
      if (!inherited) unlink(config.socket.c_str());
      return std::unexpected(ready.error());
    }
  }
  // The process may have given its capabilities up, and its user with them.
  rights.uid = geteuid();
  auto impl = std::make_unique<Impl>();
  impl->own_rights = std::move(rights);
  impl->succession = std::make_unique<Succession>(config.succession);
  impl->config = std::move(config);
  impl->all_devices = std::move(devices);
  impl->write_log = std::move(log);
  impl->port_access = std::move(ports);
  impl->connection_manager = connections;
  impl->listener = std::move(*listener);
  impl->users = std::make_unique<Users>(
      capacity_of(impl->all_devices, impl->config.max_clients), impl->config.budgets,
      [raw = impl.get()](uint32_t uid, const std::string& line) { raw->log_of_client(uid, Severity::warning, line); },
      &memory_room());
  FaultWatch::set_bell(impl->wake.get());
  if (!inherited) impl->begin();
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

Server::~Server() { stop(); }

void Server::stop() {
  if (impl_->stopping.exchange(true)) return;
  FaultWatch::set_bell(-1);
  impl_->ring();
  if (impl_->begun) {
    impl_->thread.join();
    unlink(impl_->config.socket.c_str());
  }
  impl_->listener.reset();
  impl_->config.owner.reset();
  if (!impl_->begun) impl_->give_up();
  impl_->threads_gate.open();
  const auto clients = impl_->all();
  for (const auto& client : clients) client->disconnect();
  // Stop here: the last reference may be dropped by a client's own thread that lists clients.
  for (const auto& client : clients) client->end();
  const std::scoped_lock lock(impl_->mutex);
  impl_->clients.clear();
}

void Server::set_budgets(BudgetSettings budgets) { impl_->users->configure(std::move(budgets)); }

void Server::set_max_clients(uint32_t max) {
  const std::scoped_lock lock(impl_->mutex);
  impl_->config.max_clients = max;
  impl_->users->set_capacity(Resource::connection, max);
}

bool Server::Impl::await_departing() {
  constexpr auto kLimit = std::chrono::seconds(1);
  constexpr auto kPause = std::chrono::milliseconds(1);
  std::vector<std::shared_ptr<Client>> left;
  for (const auto& client : all()) {
    if (client->departing()) left.push_back(client);
  }
  if (left.empty()) return false;
  const auto until = std::chrono::steady_clock::now() + kLimit;
  const auto any = [&left] { return std::ranges::any_of(left, [](const auto& one) { return one->departing(); }); };
  while (any() && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(kPause);
  return true;
}

std::vector<ClientInfo> Server::clients() const {
  const Clients kept = impl_->all();
  return service::all_rows(listed(kept));
}

std::vector<message::UserRow> Server::users() const { return impl_->users->rows(Sight::of_everything()); }

std::vector<std::pair<std::string, uint64_t>> Server::counters(const control::Device& device) const {
  return counters_of(*impl_, device);
}

bool Server::disconnect(uint32_t id) {
  const std::scoped_lock lock(impl_->mutex);
  const auto found = std::ranges::find_if(impl_->clients, [id](const auto& one) { return one.second->has(id); });
  if (found == impl_->clients.end()) return false;
  found->second->disconnect();
  return true;
}

}  // namespace uroce::service
