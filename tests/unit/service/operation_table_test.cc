#include "service/operation_table.h"

#include <gtest/gtest.h>

namespace uroce::service {
namespace {

using message::Op;

bool has_operation(uint16_t number) { return find_operation(static_cast<Op>(number)) != nullptr; }

TEST(OperationTable, HasEveryOperationAndNoOther) {
  for (uint32_t number = 0; number <= UINT16_MAX; ++number) {
    const bool of_device =
        (number >= 1 && number <= static_cast<uint32_t>(Op::close_device)) ||
        (number >= static_cast<uint32_t>(Op::create_flow) && number <= static_cast<uint32_t>(Op::abandon_memory));
    const bool of_xrc =
        number >= static_cast<uint32_t>(Op::open_xrc_domain) && number <= static_cast<uint32_t>(Op::list_left);
    const bool of_connections =
        number >= static_cast<uint32_t>(Op::cm_create_channel) && number <= static_cast<uint32_t>(Op::cm_raise_event);
    ASSERT_EQ(has_operation(static_cast<uint16_t>(number)), of_device || of_xrc || of_connections) << number;
  }
}

TEST(OperationTable, OnlyHelloComesBeforeHello) {
  for (uint16_t number = 1; number <= static_cast<uint16_t>(Op::cm_raise_event); ++number) {
    const Operation* operation = find_operation(static_cast<Op>(number));
    if (operation == nullptr) continue;
    EXPECT_EQ(operation->op, static_cast<Op>(number));
    EXPECT_EQ(operation->needs == Needs::nothing, operation->op == Op::hello) << number;
    const bool of_connections = operation->op >= Op::cm_create_channel;
    EXPECT_EQ(operation->needs == Needs::connection_manager, of_connections) << number;
  }
}

}  // namespace
}  // namespace uroce::service
