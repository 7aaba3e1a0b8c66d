// Answers pings: accepts connections on ping::kPort, and sends back the messages that come.
//
// Strangers may ask, too. So an answer is never longer than its question, peers have no right to this process's memory,
// and everything is bounded: peers, new ones a second, messages a second, and the time that each stays. A request in
// another's name makes that one get the reply (REP), repeated 15 times at most, as from any listener. The bounds on new
// peers and on those of one address hold for it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <uroce/cm.h>
#include <uroce/error.h>
#include <uroce/verbs.h>

#include "ping/bucket.h"
#include "ping/end.h"

namespace uroce::ping {

/// Each device has these.
struct AnswerLimits {
  std::size_t peers = 16;             ///< connected at once
  std::size_t of_one_address = 2;     ///< of these
  double new_peers_per_second = 10;   ///< others are rejected
  double messages_per_second = 2000;  ///< others wait, and the peer with them
  std::chrono::seconds setup{2};      ///< from request to connection
  std::chrono::seconds silence{5};    ///< a peer without a message for so long is disconnected
  std::chrono::seconds stay{60};      ///< and one that has been connected for so long
};

/// One thread, except where a member says otherwise.
class Answerer {
 public:
  /// Opens a device for a new peer. An error rejects the peer.
  using Open = std::function<Result<Context>(const std::string& device)>;

  /// The addresses to answer at, as they are now; zero ones do not count. Asked at the start, and then every second.
  using Addresses = std::function<std::vector<Gid>()>;

  /// Listens on each of the addresses, so that others' ports stay free. Addresses whose port somebody else has are
  /// tried again. Errors: EADDRINUSE (somebody else has all of them), and those of the manager.
  static Result<std::unique_ptr<Answerer>> listen(ConnectionManager manager, Open open, Addresses addresses,
                                                  const AnswerLimits& limits = {});

  /// Does what there is to do, and then sleeps for at most `most` (negative: as long as it may), until there is more or
  /// `stop` (-1: none) is readable. False when `stop` is, or when the devices are gone.
  bool serve(int stop, std::chrono::milliseconds most);
  /// Where it answers now.
  std::vector<Gid> addresses() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    CmId id;
    std::unique_ptr<End> end;
    std::string device;
    Gid address;                    ///< that answers go to; CmIdInfo::remote is what the peer says of itself
    Clock::time_point since, last;  ///< the request; the newest message
    bool connected = false;
  };
  struct Rates {
    Bucket peers, messages;
  };

  Answerer(ConnectionManager manager, CmChannel channel, CmId life, Open open, Addresses addresses,
           const AnswerLimits& limits);
  /// Begins and ends to listen as addresses come and go. Errors: the last one of an address.
  Result<void> follow();
  Result<CmId> listen_at(const Gid& address);
  /// False: the devices are gone.
  bool handle(const CmEvent& event, Clock::time_point now);
  /// A request that is not accepted is rejected: destroying its id does that.
  void welcome(CmId id, Clock::time_point now);
  bool has_room(const std::string& device, const Gid& address) const;
  Rates& rates_of(const std::string& device, Clock::time_point now);
  enum class Echoed : uint8_t {
    all,     ///< that has come
    some,    ///< as many as a turn has
    paused,  ///< the device's rate is used up, and more may wait
  };
  /// A peer's turn: sends back what has come.
  Echoed echo(Peer& peer, Clock::time_point now);
  void end_old_ones(Clock::time_point now);

  ConnectionManager manager_;
  CmChannel channel_;
  CmId life_;  // not bound: it tells when the devices are gone
  const Open open_;
  const Addresses wanted_;
  const AnswerLimits limits_;
  std::map<Gid, CmId> listeners_;
  Clock::time_point next_follow_{};
  std::map<std::string, Rates> rates_;  // by device
  std::map<uint32_t, Peer> peers_;      // by the id's number
};

}  // namespace uroce::ping
