// A port on an interface that the kernel keeps: the loopback interface of a network namespace of the test's own.
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <thread>

#include "namespace.h"
#include "nodes.h"
#include "pmd_glue/kernel_neighbourhood.h"
#include "pmd_glue/kernel_port.h"
#include "pmd_glue/worker.h"

namespace uroce::glue {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

/// A socket on the port of RoCE, on `lo`. Otherwise the kernel would answer each datagram with ICMP.
class RoceSocket {
 public:
  RoceSocket() {
    address_.sin_family = AF_INET;
    address_.sin_port = htons(4791);
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 0);
  }
  ~RoceSocket() { close(fd_); }
  RoceSocket(const RoceSocket&) = delete;
  RoceSocket& operator=(const RoceSocket&) = delete;

  void send_to_itself() const {
    EXPECT_EQ(sendto(fd_, "", 1, 0, reinterpret_cast<const sockaddr*>(&address_), sizeof address_), 1);
  }

 private:
  const int fd_ = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in address_{};
};

// Without the port's descriptor among those that the worker watches, each frame would wait for the end of a nap.
void a_frame_ends_the_workers_sleep() {
  PortOptions options;
  options.rx_descriptors = options.tx_descriptors = 128;
  options.rx_interrupts = true;
  auto port = KernelPort::open(KernelInterface{"net_uroce_kif0", "lo"}, 0, options);
  ASSERT_TRUE(port) << port.error().text;
  ASSERT_TRUE((*port)->start());
  const TscClock clock;
  ServiceThread service{clock};
  Node node(**port, "192.0.2.1/24", 1, service, clock, "node-kif", true);
  const PortQueue& queue = *node.queues[0];
  Worker worker(IdlePolicy::sleep, clock);
  worker.add(std::move(node.queues[0]));
  const auto wakes = [&](Nanos limit) {
    const auto begin = steady_clock::now();
    worker.waker().prepare();
    worker.waker().sleep(limit);
    return steady_clock::now() - begin < limit;
  };
  const RoceSocket roce;
  while (worker.round()) {
  }
  EXPECT_FALSE(wakes(std::chrono::milliseconds(1)));
  for (uint64_t frames = 1; frames <= 3; ++frames) {
    roce.send_to_itself();
    EXPECT_TRUE(wakes(seconds(30)));
    EXPECT_TRUE(worker.round());
    EXPECT_EQ(queue.counters().received.get(), frames);
    EXPECT_FALSE(wakes(std::chrono::milliseconds(1))) << "nothing is left to wake for";
  }
}

// The service thread, which may sleep for long, passes groups on to the port, and watches a request's deadline.
void groups_and_requests_end_the_service_threads_sleep() {
  auto port = KernelPort::open(KernelInterface{"net_uroce_kif0", "lo"}, 0, {});
  ASSERT_TRUE(port) << port.error().text;
  const TscClock clock;
  Waker service;
  auto neighbourhood = KernelNeighbourhood::open(**port, service, clock);
  ASSERT_TRUE(neighbourhood) << neighbourhood.error().text;
  const auto woken = [&] {
    service.prepare();
    return service.sleep(Nanos(0));
  };
  const auto settle = [&] {
    do {
      (*neighbourhood)->step(false);
    } while (woken());
  };
  const Gid group = Gid::from_ipv4(0xefff0001);
  settle();
  (*neighbourhood)->join(group);
  EXPECT_TRUE(woken());
  settle();
  (*neighbourhood)->leave(group);
  EXPECT_TRUE(woken());
  settle();
  (void)(*neighbourhood)->source_for(Gid::from_ipv4(INADDR_LOOPBACK));
  EXPECT_TRUE(woken());
}

TEST(KifPort, GroupsAndRequestsEndTheServiceThreadsSleep) {
  if (!in_a_namespace(groups_and_requests_end_the_service_threads_sleep))
    GTEST_SKIP() << "this machine makes no network namespaces";
}

TEST(KifPort, AFrameEndsTheWorkersSleep) {
  if (!in_a_namespace(a_frame_ends_the_workers_sleep)) GTEST_SKIP() << "this machine makes no network namespaces";
}

}  // namespace
}  // namespace uroce::glue
