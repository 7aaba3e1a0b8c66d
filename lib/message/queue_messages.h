// Completion queues and shared receive queues.
#pragma once

#include <cstdint>

#include "message/protocol.h"

namespace uroce::message {

struct CreateCq {
  uint32_t entries = 0;
  uint32_t channel = 0;  ///< 0 for none
  bool ignore_overrun = false;
  static void fields(auto& self, auto& archive) { archive(self.entries, self.channel, self.ignore_overrun); }
};

struct CreateCqReply {
  uint32_t id = 0;
  uint32_t number = 0;  ///< CompletionQueue::id()
  uint32_t entries = 0;
  uint32_t rings = 0;
  Place header{};
  Place ring_place{};
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.entries, self.rings, self.header, self.ring_place);
  }
};

struct ModerateCq {
  uint32_t cq = 0;
  uint16_t count = 0;
  uint16_t period_us = 0;
  static void fields(auto& self, auto& archive) { archive(self.cq, self.count, self.period_us); }
};

struct ResizeCq {
  uint32_t cq = 0;
  uint32_t entries = 0;
  static void fields(auto& self, auto& archive) { archive(self.cq, self.entries); }
};

struct ResizeCqReply {
  uint32_t entries = 0;
  Place ring_place{};
  static void fields(auto& self, auto& archive) { archive(self.entries, self.ring_place); }
};

struct CreateSrq {
  uint32_t pd = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  static void fields(auto& self, auto& archive) { archive(self.pd, self.max_wr, self.max_sge); }
};

struct CreateSrqReply {
  uint32_t id = 0;
  uint32_t number = 0;
  uint32_t max_wr = 0;
  uint32_t max_sge = 0;
  Place place{};
  static void fields(auto& self, auto& archive) {
    archive(self.id, self.number, self.max_wr, self.max_sge, self.place);
  }
};

struct ResizeSrq {
  uint32_t srq = 0;
  uint32_t max_wr = 0;
  static void fields(auto& self, auto& archive) { archive(self.srq, self.max_wr); }
};

struct ResizeSrqReply {
  uint32_t max_wr = 0;
  Place place{};
  static void fields(auto& self, auto& archive) { archive(self.max_wr, self.place); }
};

}  // namespace uroce::message
