/*
 * Every message has one size, so nothing of a stranger is parsed: a greeting is compared, a proof
 * is computed over bytes as they came, and an identity is read only after its proof was right.
 */
#include "net/handshake.h"

#include <string.h>

#include "base/bytes.h"
#include "base/status.h"

enum { DIALLER, ACCEPTOR, VERDICT = 4, CLAIM = NET_IDENTITY + NET_PROOF, ANSWER = VERDICT + CLAIM };

static const uint8_t MAGIC[8] = {'M', 'O', 'B', 'U', 'L', 'A', '\r', '\n'};
static const char *const PROOFS[] = {"mobula: the dialler knows", "mobula: the acceptor knows"};
static const char *const KEYS[] = {"mobula: what the dialler says",
                                   "mobula: what the acceptor says"};

/* ---- messages ---- */

static void greeting_write(uint8_t *bytes, const uint8_t *nonce) {
    base_writer_t w = {.bytes = bytes};
    base_put_bytes(&w, MAGIC, sizeof MAGIC);
    base_put_number(&w, NET_PROTOCOL, 4);
    base_put_number(&w, 0, 4);
    base_put_bytes(&w, nonce, NET_NONCE);
}

static mob_status_t greeting_check(const uint8_t *bytes) {
    base_reader_t r = {.at = bytes, .left = NET_GREETING};
    if (memcmp(base_take_bytes(&r, sizeof MAGIC), MAGIC, sizeof MAGIC) != 0)
        return base_fail(MOB_EPROTO, "what answers there is no node of a Mobula cluster");
    uint64_t version = base_take_number(&r, 4);
    if (version == NET_PROTOCOL) return MOB_OK;
    return base_fail(MOB_EPROTO,
                     "the other node speaks version %llu of the protocol between nodes, and this "
                     "one version %d: install the same version of Mobula on all nodes",
                     (unsigned long long)version, NET_PROTOCOL);
}

static void identity_write(uint8_t *bytes, const net_identity_t *who) {
    char version[NET_VERSION_MAX + 1] = {0};
    memcpy(version, who->version, strnlen(who->version, NET_VERSION_MAX));
    memset(bytes, 0, NET_IDENTITY);
    base_writer_t w = {.bytes = bytes};
    base_put_number(&w, who->cluster, 8);
    base_put_number(&w, who->incarnation, 8);
    base_put_number(&w, who->wanted, 8);
    base_put_number(&w, who->purpose, 1);
    base_put_number(&w, who->python_major, 1);
    base_put_number(&w, who->python_minor, 1);
    base_put_number(&w, who->port, 2);
    base_put_bytes(&w, version, sizeof version);
}

static void identity_read(const uint8_t *bytes, net_identity_t *who) {
    base_reader_t r = {.at = bytes, .left = NET_IDENTITY};
    who->cluster = base_take_number(&r, 8);
    who->incarnation = base_take_number(&r, 8);
    who->wanted = base_take_number(&r, 8);
    who->purpose = (uint8_t)base_take_number(&r, 1);
    who->python_major = (uint8_t)base_take_number(&r, 1);
    who->python_minor = (uint8_t)base_take_number(&r, 1);
    who->port = (uint16_t)base_take_number(&r, 2);
    memcpy(who->version, base_take_bytes(&r, sizeof who->version), sizeof who->version);
    who->version[NET_VERSION_MAX] = 0;
}

/* A proof by one side: of everything that was said before, and of what goes with it. */
static mob_status_t prove(const net_handshake_t *h, int side, const uint8_t *verdict,
                          uint8_t *ret_proof) {
    net_piece_t pieces[] = {
        {h->greetings, sizeof h->greetings},
        {h->identities[DIALLER], NET_IDENTITY},
        {verdict, VERDICT},
        {h->identities[ACCEPTOR], NET_IDENTITY},
    };
    return net_secret_prove(&h->secret, PROOFS[side], pieces, side == DIALLER ? 2 : 4, ret_proof);
}

/* ---- beginning and end ---- */

void net_handshake_init(net_handshake_t *h, bool is_dialler, const net_secret_t *secret,
                        const net_identity_t *own, const uint8_t nonce[NET_NONCE]) {
    *h = (net_handshake_t){.is_dialler = is_dialler, .secret = *secret, .own = *own};
    int side = is_dialler ? DIALLER : ACCEPTOR;
    greeting_write(h->greetings[side], nonce);
    identity_write(h->identities[side], own);
    if (!is_dialler) return;
    memcpy(h->out, h->greetings[DIALLER], NET_GREETING);
    h->out_size = NET_GREETING;
}

void net_handshake_fini(net_handshake_t *h) { explicit_bzero(h, sizeof *h); }

static mob_status_t fail(net_handshake_t *h, mob_status_t status) {
    h->state = NET_STATE_FAILED;
    return status;
}

static mob_status_t finish(net_handshake_t *h) {
    uint8_t salt[2 * NET_NONCE];
    for (int side = DIALLER; side <= ACCEPTOR; side++)
        memcpy(salt + side * NET_NONCE, h->greetings[side] + NET_GREETING - NET_NONCE, NET_NONCE);
    for (int side = DIALLER; side <= ACCEPTOR; side++) {
        mob_status_t status =
            net_secret_derive(&h->secret, KEYS[side], salt, sizeof salt, h->keys[side]);
        if (status != MOB_OK) return fail(h, status);
    }
    h->state = NET_STATE_DONE;
    return MOB_OK;
}

/* ---- the acceptor ---- */

static mob_status_t greeting_answer(net_handshake_t *h, const uint8_t *bytes) {
    memcpy(h->greetings[DIALLER], bytes, NET_GREETING);
    memcpy(h->out, h->greetings[ACCEPTOR], NET_GREETING);
    mob_status_t status = greeting_check(bytes);
    /* one of ours of another version is told ours; a stranger is told nothing */
    if (status == MOB_OK || memcmp(bytes, MAGIC, sizeof MAGIC) == 0) h->out_size = NET_GREETING;
    if (status != MOB_OK) return fail(h, status);
    h->state = NET_STATE_PROOF;
    return MOB_OK;
}

static mob_status_t answer_write(net_handshake_t *h, net_verdict_t verdict) {
    base_writer_t w = {.bytes = h->out};
    base_put_number(&w, verdict, VERDICT);
    base_put_bytes(&w, h->identities[ACCEPTOR], NET_IDENTITY);
    mob_status_t status = prove(h, ACCEPTOR, h->out, h->out + w.size);
    if (status != MOB_OK) return fail(h, status);
    h->out_size = ANSWER;
    return MOB_OK;
}

static mob_status_t claim_check(net_handshake_t *h, const uint8_t *bytes) {
    uint8_t proof[NET_PROOF];
    memcpy(h->identities[DIALLER], bytes, NET_IDENTITY);
    mob_status_t status = prove(h, DIALLER, NULL, proof);
    if (status != MOB_OK) return fail(h, status);
    if (!net_secret_is_equal(proof, bytes + NET_IDENTITY, NET_PROOF)) {
        /* nothing that the secret made goes to one who does not know it */
        memset(h->out, 0, ANSWER);
        h->out[0] = NET_WRONG_TOKEN;
        h->out_size = ANSWER;
        return fail(h, base_fail(MOB_EPERM, "it does not know this cluster's token"));
    }
    identity_read(h->identities[DIALLER], &h->peer);
    h->state = NET_STATE_DECIDE;
    return MOB_OK;
}

mob_status_t net_handshake_answer(net_handshake_t *h, net_verdict_t verdict) {
    h->verdict = verdict;
    mob_status_t status = answer_write(h, verdict);
    if (status != MOB_OK) return status;
    if (verdict == NET_WELCOME) return finish(h);
    h->state = NET_STATE_FAILED;
    return MOB_OK;
}

/* ---- the dialler ---- */

static mob_status_t claim_write(net_handshake_t *h, const uint8_t *bytes) {
    mob_status_t status = greeting_check(bytes);
    if (status != MOB_OK) return fail(h, status);
    memcpy(h->greetings[ACCEPTOR], bytes, NET_GREETING);
    memcpy(h->out, h->identities[DIALLER], NET_IDENTITY);
    status = prove(h, DIALLER, NULL, h->out + NET_IDENTITY);
    if (status != MOB_OK) return fail(h, status);
    h->out_size = CLAIM;
    h->state = NET_STATE_ANSWER;
    return MOB_OK;
}

static mob_status_t refusal(const net_handshake_t *h) {
    const net_identity_t *peer = &h->peer, *own = &h->own;
    switch (h->verdict) {
    case NET_WRONG_CLUSTER:
        return base_fail(MOB_EINVAL, "it belongs to another cluster: %016llx, not %016llx",
                         (unsigned long long)peer->cluster, (unsigned long long)own->cluster);
    case NET_WRONG_VERSION:
        return base_fail(MOB_EINVAL,
                         "it has Mobula %s and Python %u.%u, and this node has Mobula %s and "
                         "Python %u.%u: they must be the same on all nodes",
                         peer->version, peer->python_major, peer->python_minor, own->version,
                         own->python_major, own->python_minor);
    case NET_WRONG_NODE:
        return base_fail(MOB_EINVAL, "another node is there now: %016llx",
                         (unsigned long long)peer->incarnation);
    case NET_DEAD:
        return base_fail(MOB_EINVAL, "this node was declared dead: it has to join again");
    case NET_BUSY:
        return base_fail(MOB_EINVAL, "it has no room for another connection now");
    default:
        return base_fail(MOB_EPROTO, "it gave an answer that makes no sense");
    }
}

static mob_status_t answer_check(net_handshake_t *h, const uint8_t *bytes) {
    uint8_t proof[NET_PROOF];
    memcpy(h->identities[ACCEPTOR], bytes + VERDICT, NET_IDENTITY);
    mob_status_t status = prove(h, ACCEPTOR, bytes, proof);
    if (status != MOB_OK) return fail(h, status);
    if (!net_secret_is_equal(proof, bytes + VERDICT + NET_IDENTITY, NET_PROOF))
        return fail(h, base_fail(MOB_EPERM,
                                 "its token is another one: take RAY_AUTH_TOKEN, or the file "
                                 "~/.ray/auth_token, from the cluster's head"));
    base_reader_t r = {.at = bytes, .left = VERDICT};
    uint64_t verdict = base_take_number(&r, VERDICT);
    identity_read(h->identities[ACCEPTOR], &h->peer);
    h->verdict = verdict < NET_VERDICTS ? (net_verdict_t)verdict : NET_VERDICTS;
    return h->verdict == NET_WELCOME ? finish(h) : fail(h, refusal(h));
}

/* ---- what comes ---- */

size_t net_handshake_needs(const net_handshake_t *h) {
    switch (h->state) {
    case NET_STATE_GREETING:
        return NET_GREETING;
    case NET_STATE_PROOF:
        return CLAIM;
    case NET_STATE_ANSWER:
        return ANSWER;
    default:
        return 0;
    }
}

mob_status_t net_handshake_take(net_handshake_t *h, const uint8_t *bytes) {
    switch (h->state) {
    case NET_STATE_GREETING:
        return h->is_dialler ? claim_write(h, bytes) : greeting_answer(h, bytes);
    case NET_STATE_PROOF:
        return claim_check(h, bytes);
    case NET_STATE_ANSWER:
        return answer_check(h, bytes);
    default:
        return MOB_EINVAL;
    }
}

const uint8_t *net_handshake_out(net_handshake_t *h, size_t *ret_size) {
    *ret_size = h->out_size;
    h->out_size = 0;
    return h->out;
}
