// The names that scripts use for the fields of the connection manager's messages: one list each, for making a message
// from a line and for comparing one with a line.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "cm/ib/mad.h"

namespace uroce::test {

template <class Visit>
void fields(cm::ReqMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("service", m.service_id);
  visit("guid", m.ca_guid);
  visit("qpn", m.qpn);
  visit("psn", m.psn);
  visit("responder_resources", m.responder_resources);
  visit("initiator_depth", m.initiator_depth);
  visit("remote_timeout", m.remote_cm_timeout);
  visit("local_timeout", m.local_cm_timeout);
  visit("transport", m.transport);
  visit("flow_control", m.flow_control);
  visit("retry_count", m.retry_count);
  visit("rnr_retry", m.rnr_retry_count);
  visit("retries", m.max_cm_retries);
  visit("pkey", m.pkey);
  visit("mtu", m.mtu);
  visit("srq", m.srq);
  visit("flow_label", m.flow_label);
  visit("traffic_class", m.traffic_class);
  visit("hop_limit", m.hop_limit);
  visit("ack_timeout", m.ack_timeout);
  visit("ece_vendor", m.ece_vendor);
  visit("local_gid", m.local_gid);
  visit("remote_gid", m.remote_gid);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::MraMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("answers", m.answered);
  visit("timeout", m.service_timeout);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::RejMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("answers", m.answered);
  visit("reason", m.reason);
  visit("info", m.info);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::RepMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("qpn", m.qpn);
  visit("psn", m.psn);
  visit("qkey", m.qkey);
  visit("responder_resources", m.responder_resources);
  visit("initiator_depth", m.initiator_depth);
  visit("ack_delay", m.ack_delay);
  visit("failover", m.failover);
  visit("flow_control", m.flow_control);
  visit("rnr_retry", m.rnr_retry_count);
  visit("srq", m.srq);
  visit("guid", m.ca_guid);
  visit("ece_vendor", m.ece_vendor);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::RtuMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::DreqMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("remote_qpn", m.remote_qpn);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::DrepMad& m, Visit&& visit) {
  visit("local", m.local_id);
  visit("remote", m.remote_id);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::SidrReqMad& m, Visit&& visit) {
  visit("request", m.request_id);
  visit("service", m.service_id);
  visit("pkey", m.pkey);
  visit("data", m.private_data);
}

template <class Visit>
void fields(cm::SidrRepMad& m, Visit&& visit) {
  visit("request", m.request_id);
  visit("service", m.service_id);
  visit("status", m.status);
  visit("qpn", m.qpn);
  visit("qkey", m.qkey);
  visit("info", m.info);
  visit("data", m.private_data);
}

/// Calls `use(name, message)` with a default message of each kind until it returns true; false when it never does.
template <class Use>
bool any_message(Use&& use) {
  return use("REQ", cm::ReqMad{}) || use("MRA", cm::MraMad{}) || use("REJ", cm::RejMad{}) || use("REP", cm::RepMad{}) ||
         use("RTU", cm::RtuMad{}) || use("DREQ", cm::DreqMad{}) || use("DREP", cm::DrepMad{}) ||
         use("SIDR_REQ", cm::SidrReqMad{}) || use("SIDR_REP", cm::SidrRepMad{});
}

}  // namespace uroce::test
