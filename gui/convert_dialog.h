// SPDX-License-Identifier: GPL-3.0-or-later
//
// ConvertDialog: what a lane's model is to become, and in which precision the new lane keeps it; says what a token will cost while
// it is chosen. Nothing is converted here.
#pragma once

#include <QDialog>  // first: moc 6.4 cannot parse libstdc++ when <compare> is the first header it meets

#include "engine/model/config.h"
#include "engine/serve/scenario.h"

#include <optional>
#include <vector>

class QComboBox;
class QLabel;
class QLineEdit;
class QPushButton;
class QSpinBox;

namespace kvloupe {

// A lane whose model can be converted.
struct ConvertSource {
    LaneOptions lane;
    ModelConfig config;      // of the model before any conversion
    bool knowsStories = false;  // the bundled stories; else prose is what sensitivity is measured on
    bool onCard = false;     // its device has memory of its own, where late rotation is not computed
};

class ConvertDialog : public QDialog {
    Q_OBJECT

public:
    // sources: at least one. chosen: an index. taken: names that other lanes have.
    ConvertDialog(std::vector<ConvertSource> sources, std::size_t chosen, QStringList taken, QWidget* parent = nullptr);

    // The new lane: the source's options with the conversion.
    LaneOptions lane() const;
    // Predicted bytes of a token in all layers; empty while the problem says why there is nothing.
    std::optional<double> bytesPerToken() const { return m_bytes; }
    const QString& problem() const { return m_problem; }

private:
    void buildFields();
    void buildLayout();
    void chooseSource();
    void chooseWidths();
    void check();
    QString freeName() const;
    QString note() const;
    const ConvertSource& source() const;
    ConvertOptions options() const;
    std::uint32_t rank() const;  // of a layer's joint projection, at most

    std::vector<ConvertSource> m_sources;
    QStringList m_taken;
    QComboBox *m_source, *m_to, *m_heads, *m_widths, *m_by, *m_cache;
    QSpinBox* m_values;
    QLineEdit* m_name;
    QLabel *m_prediction, *m_sentence;
    QPushButton* m_convert = nullptr;
    std::optional<double> m_bytes;
    QString m_problem;
    bool m_named = false;    // by hand
    bool m_filling = false;  // fields are being set together
};

}  // namespace kvloupe
