// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/block_values_store.h"

#include "gui/session_controller.h"
#include "views/block_view.h"

namespace kvloupe {

namespace {

constexpr int look_ms = 15;

}  // namespace

BlockValuesStore::BlockValuesStore(SessionController* controller, QObject* parent) : BlockValuesSource(parent), m_controller(controller) {
    m_timer.setInterval(look_ms);
    connect(&m_timer, &QTimer::timeout, this, &BlockValuesStore::look);
    connect(controller, &SessionController::sessionChanged, this, [this] {
        m_timer.stop();
        m_asked.reset();
        m_before.reset();
        m_answer.reset();
    });
}

void BlockValuesStore::attach(const QList<View*>& views) {
    for (View* view : views)
        if (auto* shows = qobject_cast<BlockView*>(view)) shows->setSource(this);
}

void BlockValuesStore::ask(const BlockQuestion& question) {
    Session* session = m_controller->session();
    if (!session) return;
    const auto recording = session->recording();
    if (question.lane.value >= recording->lanes().size()) return;
    const std::size_t steps = recording->lane(question.lane).step_count();
    const auto known = session->block_values();
    if (known && known->question == question && known->generation == session->generation() && known->step + 1 >= steps) {
        m_answer = known;
        return;
    }
    if (m_asked == question && m_askedSteps == steps) return;
    m_asked = question;
    m_askedSteps = steps;
    m_before = known;
    session->ask_block(question);
    m_timer.start();
}

void BlockValuesStore::look() {
    Session* session = m_controller->session();
    if (!session || !m_asked) return m_timer.stop();
    const auto known = session->block_values();
    if (!known || known == m_before || known->question != *m_asked) return;
    m_timer.stop();
    m_asked.reset();
    m_before.reset();
    m_answer = known;
    Q_EMIT answered();
}

}  // namespace kvloupe
