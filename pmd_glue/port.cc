#include "pmd_glue/port.h"

#include <fmt/format.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include <net/if.h>
#include <unistd.h>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/interrupt_thread.h"
#include "pmd_glue/memif.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

constexpr auto kServerTimeout = std::chrono::seconds(5);

/// Silences one log type of DPDK while it lives.
class SilencedLog {
 public:
  explicit SilencedLog(const char* type) {
    if (type == nullptr) return;
    type_ = rte_log_register(type);  // returns the existing type of this name
    level_ = rte_log_get_level(static_cast<uint32_t>(type_));
    rte_log_set_level(static_cast<uint32_t>(type_), RTE_LOG_CRIT);
  }
  ~SilencedLog() {
    if (type_ >= 0 && level_ >= 0) rte_log_set_level(static_cast<uint32_t>(type_), static_cast<uint32_t>(level_));
  }
  SilencedLog(const SilencedLog&) = delete;
  SilencedLog& operator=(const SilencedLog&) = delete;

 private:
  int type_ = -1;
  int level_ = -1;
};

}  // namespace

Result<std::unique_ptr<Port>> Port::open(uint16_t id, const PortOptions& options) {
  std::unique_ptr<Port> port(new Port);
  port->id_ = id;
  if (auto ok = port->set_up(options); !ok) return std::unexpected(ok.error());
  return port;
}

Result<std::unique_ptr<Port>> Port::open(const KernelInterface& on, uint16_t number, const PortOptions& options) {
  std::unique_ptr<Port> port(new Port);
  port->id_ = static_cast<uint16_t>(RTE_MAX_ETHPORTS + number);
  if (auto ok = port->set_up_interface(on, options); !ok) return std::unexpected(ok.error());
  return port;
}

Port::~Port() {
  close();
  if (!stuck_) rte_mempool_free(pool_);
}

Result<void> Port::fail_port(int code, std::string_view what) const {
  return fail(code < 0 ? -code : code, fmt::format("port {} ({}) {}", name_, driver_, what));
}

// `work` owns everything it uses, because it may outlive the port (see on_interrupt_thread).
std::optional<int> Port::beside_no_handler(std::function<int()> work) const {
  if (needs_guard()) return on_interrupt_thread(std::move(work));
  return work();
}

Result<void> Port::start() {
  if (kif_) return start_interface();
  const bool client = driver_ == "net_memif" && is_memif_client(devargs_);
  const auto until = std::chrono::steady_clock::now() + kServerTimeout;
  const auto try_start = [id = id_] { return rte_eth_dev_start(id); };
  const SilencedLog silenced(client ? "pmd.net.memif" : nullptr);  // one message at the end reports it
  auto error = beside_no_handler(try_start);
  while (error.value_or(0) != 0 && client && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    error = beside_no_handler(try_start);
  }
  if (!error) {
    stuck_ = true;
    return fail_port(ETIMEDOUT, fmt::format("did not start within {} s, because EAL's interrupt thread is stuck in a "
                                            "driver; start the program again",
                                            kInterruptTimeout.count()));
  }
  if (*error != 0 && client) {
    return fail_port(ENODEV, fmt::format("found no memif server on {} within 5 s; start the one with role=server first",
                                         memif_socket(devargs_)));
  }
  if ((*error != 0 || !interrupts_work()) && std::exchange(rx_interrupts_, false)) error = start_without_interrupts();
  if (*error != 0) return fail_port(*error, fmt::format("did not start: {}", rte_strerror(-*error)));
  started_ = true;
  admit_vlan();
  if (card_) note(description(), NoteLevel::info);
  refresh_link();
  return {};
}

Result<void> Port::start_interface() {
  if (auto ok = kif_->start(queues_, vlan_, pool_); !ok) return fail_port(ok.error().code, ok.error().text);
  started_ = true;
  note(description(), NoteLevel::info);
  refresh_link();
  return {};
}

// Only a started driver shows whether its binding has an interrupt for each queue: uio_pci_generic has none.
bool Port::interrupts_work() const {
  for (uint16_t q = 0; q < queues_ && rx_interrupts_; ++q) {
    if (rte_eth_dev_rx_intr_ctl_q_get_fd(id_, q) < 0 || rte_eth_dev_rx_intr_enable(id_, q) != 0) return false;
    rte_eth_dev_rx_intr_disable(id_, q);
  }
  return true;
}

int Port::start_without_interrupts() {
  rte_eth_dev_stop(id_);
  if (const int error = apply(); error != 0) return error;
  receive_all_groups();
  return rte_eth_dev_start(id_);
}

void Port::stop() {
  if (!started_) return;
  started_ = false;
  link_up_.store(false, std::memory_order_relaxed);
  if (kif_) return kif_->stop();
  stuck_ = !beside_no_handler([id = id_] { return rte_eth_dev_stop(id); }).has_value();
}

void Port::close() {
  stop();
  if (opened_ && !stuck_) {
    const bool listens = driver_ == "net_memif" && !is_memif_client(devargs_);
    const auto closed = beside_no_handler([id = id_, devargs = devargs_, listens] {
      // Other ports may share the socket. They lose later clients, but otherwise the last port to close would make a
      // later client crash the process.
      if (listens) silence_memif_listener(devargs);
      return rte_eth_dev_close(id);
    });
    stuck_ = !closed.has_value();
  }
  if (opened_ && stuck_) {
    fmt::print(stderr, "port {} ({}) stays open: its driver did not return within {} s\n", name_, driver_,
               kInterruptTimeout.count());
  }
  opened_ = false;
  if (group_socket_ >= 0) ::close(std::exchange(group_socket_, -1));
}

void Port::reconnect(uint32_t pollers) {
  if (driver_ != "net_memif" || !is_memif_client(devargs_) || link_up()) return;
  if (pause_.load(std::memory_order_relaxed) == 0) {
    paused_pollers_.store(0, std::memory_order_relaxed);
    pause_.store(++pauses_, std::memory_order_release);
  }
  if (paused_pollers_.load(std::memory_order_acquire) < pollers) return;
  const SilencedLog silenced("pmd.net.memif");
  const auto error = on_interrupt_thread([id = id_] {
    rte_eth_dev_stop(id);
    return rte_eth_dev_start(id);
  });
  // Nobody may poll a port that did not start, or that may still start.
  if (error == 0) pause_.store(0, std::memory_order_release);
}

// rte_eth_rx_burst() and rte_eth_tx_burst() look there for callbacks, as rte_pdump's.
bool Port::shows_received(uint16_t queue) const {
  return !kif_ && __atomic_load_n(&rte_eth_fp_ops[id_].rxq.clbk[queue], __ATOMIC_RELAXED) != nullptr;
}

bool Port::shows_sent(uint16_t queue) const {
  return !kif_ && __atomic_load_n(&rte_eth_fp_ops[id_].txq.clbk[queue], __ATOMIC_RELAXED) != nullptr;
}

// A driver cannot tell a card that was taken out from one that is silent: reads give all ones. The kernel can.
void Port::look_for_card() {
  if (on_pci_ && !gone() && !read_pci_card(name_)) lose("card");
}

// The driver's socket stays with the interface that it was opened on, whatever is called the same later.
void Port::look_for_interface() {
  char name[IF_NAMESIZE];
  if (!is_on_netdev() || gone()) return;
  if (if_indextoname(interface_index_, name) == nullptr && errno == ENXIO) lose("interface");
}

void Port::lose(std::string_view what) {
  gone_.store(true, std::memory_order_relaxed);
  pause_.store(++pauses_, std::memory_order_release);  // for ever: nobody polls it again
  note(fmt::format("port {} ({}): its {} has gone; the device is dead until the program starts again", name_, driver_,
                   what));
}

void Port::refresh_link() {
  if (kif_) return link_up_.store(kif_->refresh(), std::memory_order_relaxed);
  look_for_card();
  look_for_interface();
  if (gone()) return link_up_.store(false, std::memory_order_relaxed);
  rte_eth_link link{};
  bool up = rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  // While pollers pause the port is not up, even if a late start brought its link up. reconnect() ends the pause.
  up = up && pause_.load(std::memory_order_relaxed) == 0;
  // These drivers always report an up link, and lose frames while their interface is down.
  if (is_on_netdev()) up = up && netdev_running(netdev()).value_or(false);
  link_up_.store(up, std::memory_order_relaxed);
}

}  // namespace uroce::glue
