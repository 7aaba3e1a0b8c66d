#include "service/qp_end_text.h"

#include <gtest/gtest.h>

namespace uroce::service {
namespace {

using transport::QpEnd;

TEST(QpEndText, NamesThePeerAndTheStatus) {
  EXPECT_EQ(text_of({.qpn = 0x12,
                     .cause = QpEnd::Cause::request,
                     .status = WcStatus::rnr_retry_exceeded,
                     .peer = Gid::from_ipv4(0xc0000201),
                     .peer_qpn = 0x34}),
            "queue pair 0x12 to 0x34 at 192.0.2.1 ended with rnr_retry_exceeded (status 13): the peer had no receive "
            "posted within min_rnr_timer and rnr_retry");
  EXPECT_EQ(text_of({.qpn = 0x12, .cause = QpEnd::Cause::receive, .status = WcStatus::local_length_error}),
            "queue pair 0x12 ended with local_length_error (status 1): a message was longer than the receive for it");
  EXPECT_EQ(text_of({.qpn = 0x12, .cause = QpEnd::Cause::request, .status = WcStatus::general_error}),
            "queue pair 0x12 ended with status 21");
}

TEST(QpEndText, TellsWhatHasNoStatus) {
  EXPECT_EQ(text_of({.qpn = 1, .cause = QpEnd::Cause::overrun}),
            "queue pair 0x1 ended: a completion queue was full; the program polls too rarely, or made it too small");
  EXPECT_EQ(text_of({.qpn = 1, .cause = QpEnd::Cause::response, .event = AsyncEventType::qp_access_error}),
            "queue pair 0x1 ended: it refused a request of its peer (key, address, length or access)");
  EXPECT_EQ(text_of({.qpn = 1, .cause = QpEnd::Cause::response, .event = AsyncEventType::qp_request_error}),
            "queue pair 0x1 ended: it refused a request of its peer that is not allowed or makes no sense");
  EXPECT_EQ(text_of({.qpn = 1, .cause = QpEnd::Cause::queues}),
            "queue pair 0x1 ended: its queues make no sense; the program may have overwritten them");
}

}  // namespace
}  // namespace uroce::service
