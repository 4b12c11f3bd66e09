// SPDX-License-Identifier: GPL-3.0-or-later
#include "gui/live_recording.h"

#include "views/format.h"

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QMetaObject>

namespace kvloupe {

namespace {

constexpr int look_at_file_ms = 250;

}  // namespace

LiveRecording::LiveRecording(QObject* parent) : QObject(parent) {
    m_timer.setInterval(look_at_file_ms);
    connect(&m_timer, &QTimer::timeout, this, &LiveRecording::look);
}

LiveRecording::~LiveRecording() = default;

QString LiveRecording::start(std::shared_ptr<const Recording> recording, const KvtOptions& options) {
    if (m_writer || m_closing) return tr("Another recording is being written. Stop it first.");
    m_path = QString::fromStdString(options.path);
    // What stands there gives way only to a file that could be made.
    const QString aside = m_path + QStringLiteral(".before");
    const bool replaces = QFile::exists(m_path);
    if (replaces) {
        QFile::remove(aside);
        if (!QFile::rename(m_path, aside)) return tr("%1 cannot be replaced. Choose another name.").arg(QDir::toNativeSeparators(m_path));
    }
    KvtOptions live = options;
    live.may_leave_out_attention = true;
    auto writer = KvtWriter::create(recording, live);
    if (!writer) {
        if (replaces) QFile::rename(aside, m_path);
        return QString::fromStdString(writer.error().message());
    }
    if (replaces) QFile::remove(aside);
    m_recording = std::move(recording);
    m_writer = std::move(*writer);
    m_timer.start();
    Q_EMIT changed();
    return {};
}

void LiveRecording::stop() { close({}); }

KvtProgress LiveRecording::progress() const { return m_writer ? m_writer->progress() : KvtProgress(); }

quint64 LiveRecording::bytes() const {
    return static_cast<quint64>(QFileInfo(m_path).size()) + static_cast<quint64>(QFileInfo(m_path + QStringLiteral("-wal")).size());
}

QString LiveRecording::statusText() const {
    const QString name = QFileInfo(m_path).fileName();
    if (m_closing) return tr("Closing %1").arg(name);
    if (!m_writer) return {};
    const KvtProgress now = progress();
    QString text = tr("Recording to %1: %2 steps, %3 %4").arg(name, formatCount(now.steps), originMark(Origin::measured),
            formatBytes(bytes()));
    if (now.left_out_rows > 0) text += tr(" (disk behind: %1 attention rows left out)").arg(formatCount(now.left_out_rows));
    return text;
}

void LiveRecording::look() {
    if (!m_writer) return m_timer.stop();
    if (const auto error = progress().error; error)
        close(tr("%1. What was written until then stays; the session goes on.").arg(QString::fromStdString(error->sentence)));
    else Q_EMIT changed();
}

// sentence: why it ends, "" where it was asked to.
void LiveRecording::close(const QString& sentence) {
    if (!m_writer) return;
    m_timer.stop();
    m_closing = true;
    if (m_closer.joinable()) m_closer.join();
    m_closer = std::jthread([this, writer = std::shared_ptr<KvtWriter>(std::move(m_writer)), recording = std::move(m_recording),
            path = m_path,
                             sentence]() mutable {
        const auto finished = writer->finish();
        QString text = sentence;
        if (text.isEmpty())
            text = finished ? tr("The recording lies in %1.").arg(QDir::toNativeSeparators(path))
                    : QString::fromStdString(finished.error().message());
        writer.reset();
        recording.reset();
        QMetaObject::invokeMethod(this, [this, text] {
            m_closing = false;
            Q_EMIT changed();
            Q_EMIT ended(text);
        });
    });
    Q_EMIT changed();
}

}  // namespace kvloupe
