// The parts of a server.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <sys/eventfd.h>
#include <unistd.h>

#include "service/client.h"
#include "service/guess_watch.h"
#include "service/listing.h"
#include "service/log_limit.h"
#include "service/memory_room.h"
#include "service/server.h"
#include "service/subordinates.h"

namespace uroce::service {

struct Server::Impl final : ServerView {
  ServerConfig config;
  std::vector<std::shared_ptr<control::Device>> all_devices;
  Log write_log;
  PortAccess port_access;
  cm::Manager* connection_manager = nullptr;
  message::Fd listener;
  message::Fd wake{eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
  std::atomic<bool> stopping{false};
  std::atomic<bool> holding{false};  ///< connections are to wait
  std::atomic<bool> held{false};     ///< they do
  bool begun = false;                ///< the socket is this process's
  std::thread thread;
  mutable std::mutex mutex;  // guards max_clients, clients and next_id
  DaemonRights own_rights;
  EarlierCounters earlier;
  History what_happened;
  Gate threads_gate;
  bool connections_lost = false;                       // what connection_manager has makes no sense
  bool writes_are_whole = false;                       // by finish_onlies(), until the engines go on
  Estate numbers_written;                              // by stand_still(), before the engines are paused
  std::vector<std::shared_ptr<Client>> inherited;      // not yet served
  std::vector<std::shared_ptr<Client>> not_inherited;  // of the other daemon's, to be disconnected
  std::unique_ptr<Succession> succession;              // outlives the clients
  std::unique_ptr<Users> users;                        // the same
  std::map<uint32_t, std::shared_ptr<Client>> clients;
  uint32_t next_id = 1;
  uint64_t breaks = 0;
  std::mutex log_mutex;  // guards the next two
  LogLimit log_limit;
  LogLimit debug_log_limit;
  // The server's thread only:
  GuessWatch guess_watch;
  std::map<const control::Device*, std::size_t> late;  // at the last look
  struct Link {
    uint64_t downs = 0;
    bool up = true;
    std::optional<History::Time> last_down{};
  };
  std::map<const control::Device*, Link> links;  // likewise
  Subordinates subordinates;
  uint64_t memory = memory_room().machine();  // that the daemon may use
  std::chrono::steady_clock::time_point next_look{};

  const std::vector<std::shared_ptr<control::Device>>& devices() const override { return all_devices; }
  const PortAccess& ports() const override { return port_access; }
  const DaemonRights& rights() const override { return own_rights; }
  const EarlierCounters& earlier_counters() const override { return earlier; }
  Gate& gate() override { return threads_gate; }
  cm::Manager* connections() const override { return connection_manager; }
  void log(Severity severity, std::string_view text) const {
    if (write_log) write_log(severity, text);
  }
  void log_of_client(uint32_t uid, Severity severity, std::string_view text) override {
    {
      const std::scoped_lock lock(log_mutex);
      // Lines for debugging take no room from the others.
      LogLimit& limit = severity == Severity::debug ? debug_log_limit : log_limit;
      if (!limit.admit(uid, std::chrono::steady_clock::now())) return;
    }
    log(severity, text);
  }
  void log_always(Severity severity, std::string_view text) override { log(severity, text); }
  Result<std::unique_ptr<Succession::Turn>> begin_succession(const message::TakeOver& request, int32_t pid) override {
    return succession->begin(request, pid, [this](const EstateVersions& versions) { return check(versions); });
  }
  History& history() override { return what_happened; }
  message::RestartRow restart_row() const override { return succession->row(); }
  // The next three are defined in server_history.cc.
  /// Tells which queue pairs have ended by themselves.
  void log_ends();
  void look_at_links();
  /// To all programs that have it open.
  void note_of_device(const control::Device& device, std::string_view text, History::Time now);
  void log_what_was_left_out();
  uint32_t new_client_id() override {
    const std::scoped_lock lock(mutex);
    return next_id++;
  }
  bool await_departing() override;
  void finished() override { ring(); }
  void ring() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = write(wake.get(), &one, sizeof one);
  }

  Clients all() const {
    const std::scoped_lock lock(mutex);
    Clients out;
    for (const auto& [id, client] : clients) out.push_back(client);
    return out;
  }
  message::ClientRows client_rows(uint32_t after, const Sight& sight) const override {
    const Clients kept = all();
    return service::client_rows(listed(kept), after, sight);
  }
  message::UserRows user_rows(uint64_t after, const Sight& sight) const override {
    return service::user_rows(*users, after, sight);
  }
  message::ObjectRows object_rows(const message::ListObjects& request, const Sight& sight) const override {
    const Clients kept = all();
    return service::object_rows(listed(kept), request, sight);
  }

  /// From now on the socket is served.
  void begin();
  // The next ones are defined in server_estate.cc: they are steps of a planned restart.
  /// Whether a successor can serve the clients that there are. Errors: EPROTONOSUPPORT.
  Result<void> check(const EstateVersions& versions) const;
  /// The same for what they have, while the programs' threads are at the gate.
  Result<void> check_objects(const EstateVersions& versions) const;
  /// Holds the programs' threads and the engines. Errors: ETIMEDOUT, and those of check_objects(), with nothing held.
  Result<void> stand_still(const EstateVersions& versions);
  /// Returns once no WRITE is under way for which the snapshots of `versions` have no place. The engines turn.
  Result<void> finish_onlies(const EstateVersions& versions);
  void keep_writes_whole(bool whole);
  /// In place of stand_still(): see Server::outlive_threads().
  std::size_t outlive_threads();
  void write_numbers(const EstateVersions& versions);
  /// Waits until the programs' threads are at the gate. False on timeout.
  bool gate_holds_all();
  /// Programs' threads that come to the gate.
  std::size_t serving() const;
  /// Ends that, and begins to serve the inherited clients.
  void move_on();
  /// The objects of the clients, while all stands still. Clients that no other daemon can serve are left out.
  Result<std::pair<Estate, Bequest>> estate();
  /// Makes the objects that the clients of another daemon had; the engines stand still until move_on(). Clients of whom
  /// the rows make no sense are left out. Errors: ETIMEDOUT; EPROTO, where the whole makes no sense.
  Result<Bequest> inherit(Estate estate);
  /// The connection manager's own part of that.
  Result<void> inherit_connections(EstateReader& rows);
  /// In place of move_on() after inherit(): the other daemon keeps its clients.
  void give_up();
  /// The client of a connection that another daemon served.
  std::shared_ptr<Client> client_of(message::Fd socket, uint32_t id);
  void add_inherited(std::shared_ptr<Client> client, uint32_t id);

  void run();
  void accept_one();
  Result<void> too_many() const;
  void reap();
  void settle_waits() const;
  void look_at_memory();
  void release_late();
};

}  // namespace uroce::service
