// Queue pairs in multicast groups (ibv_attach_mcast(3)).
#include <cerrno>
#include <cstring>

#include "pair.h"

namespace uroce::dropin {
namespace {

ibv_gid group(uint8_t last) {
  const uint8_t bytes[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 1, 2, last};
  ibv_gid gid{};
  std::memcpy(gid.raw, bytes, sizeof(bytes));
  return gid;
}

TEST_F(Pair, AQueuePairInAGroupCannotBeDestroyed) {
  ibv_qp* qp = make_datagram_qp(0x1234);
  ASSERT_NE(qp, nullptr);
  const ibv_gid first = group(1), second = group(2);
  ASSERT_EQ(ibv_attach_mcast(qp, &first, 0), 0);
  ASSERT_EQ(ibv_attach_mcast(qp, &first, 0), 0);  // once is enough to detach it
  ASSERT_EQ(ibv_attach_mcast(qp, &second, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(qp, &first, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), EBUSY);
  EXPECT_EQ(ibv_detach_mcast(qp, &first, 0), EINVAL);
  EXPECT_EQ(ibv_detach_mcast(qp, &second, 0), 0);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

TEST_F(Pair, AFailedAttachmentHoldsNothing) {
  ibv_qp* qp = make_datagram_qp(0x1234);
  ibv_gid none{};
  EXPECT_EQ(ibv_attach_mcast(qp, &none, 0), EINVAL);
  EXPECT_EQ(ibv_destroy_qp(qp), 0);
}

}  // namespace
}  // namespace uroce::dropin
